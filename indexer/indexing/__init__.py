"""Index documents: read, encode, store, prune."""
