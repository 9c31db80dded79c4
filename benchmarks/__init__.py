"""Benchmarks as commands: each measures a ratio to a peer in one run, because times vary on shared machines."""
