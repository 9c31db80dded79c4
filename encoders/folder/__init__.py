"""A model on disk: its configuration, files, pieces and training texts; the cache of models."""
