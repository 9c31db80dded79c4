"""HMDE: a document's sentence vectors, put in context by a small transformer."""
