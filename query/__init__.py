"""Queries → ranked documents in any language: search, evaluation and the command."""

__version__ = "0.1.0"
