"""The SQL database: its tables, and the ledger of what is done."""
