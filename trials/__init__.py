"""What tests and benchmarks share: trials of accidents and races, an encoder that counts."""
