"""Dumps of Wikipedia and other wikis."""
