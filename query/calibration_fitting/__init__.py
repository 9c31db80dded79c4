"""A calibration is decided, fitted and kept."""
