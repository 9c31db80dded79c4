"""What a calibration is, and the table that keeps it."""
