"""Queries → ranked documents in any language: search, evaluation and the command. Programs import ``dragoman``."""

__version__ = "0.1.0"
