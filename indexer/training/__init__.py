"""Encoders fitted on documents, one file an encoder."""
