"""The report: what a collection's bias looks like before and after calibration, and how good its rankings are."""
