"""Readers of sources: each source is read into a stream of documents, refusals and remarks."""
