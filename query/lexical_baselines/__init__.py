"""Rankings without an encoder: BM25, and PSQ by lexicons."""
