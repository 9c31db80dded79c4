"""Index runs shared by many processes: the ledger decides, and a message is only a hint to look at the ledger."""
