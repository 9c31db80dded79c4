"""An index run shared by many processes: the ledger is the truth, a message only a hint to look at it."""
