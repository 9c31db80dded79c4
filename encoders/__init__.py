"""Text in a known language → unit vectors: the encoders, and what they share."""
