"""Solvers of Cr5's ridge regression and its reduced rank."""
