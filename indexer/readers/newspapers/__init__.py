"""Newspaper collections in TREC and CLEF markup."""
