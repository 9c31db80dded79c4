"""Topics, judgements and runs: what is in TREC's files."""
