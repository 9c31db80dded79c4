"""Topics and judgements in, measures out; the log of evaluations."""
