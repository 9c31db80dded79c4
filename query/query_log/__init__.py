"""The log of queries and clicks, and the judgements made from it."""
