"""Topics and judgements in, measures out; the history of evaluations."""
