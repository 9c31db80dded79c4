"""Measurements as commands: each a ratio to a peer in one run, because these machines are noisy."""
