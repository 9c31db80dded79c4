"""Vectors beside a user's own Elasticsearch index: in it, or in a companion index."""
