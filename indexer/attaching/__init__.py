"""Attach a user's own index: add vectors to it and keep the vectors up to date."""
