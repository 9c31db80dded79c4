"""Where vectors live: one contract, and a store in a file or in Elasticsearch that keeps it."""
