"""The report: a collection's language bias before and after calibration, and the quality of its rankings."""
