"""Documents → vectors in a store: readers, the pipeline, the ledger and the stores."""
