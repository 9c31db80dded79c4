"""Documents on their way into a store: read, encoded, stored, pruned."""
