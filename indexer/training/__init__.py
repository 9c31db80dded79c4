"""Training of encoders and mappings on documents; each encoder has its module."""
