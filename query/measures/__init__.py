"""Measures of rankings: quality, fairness between languages, significance."""
