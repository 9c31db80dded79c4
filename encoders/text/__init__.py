"""Text before the encoder: tokens, segments, words."""
