"""The computation of papers' tables, and the readers of their data."""
