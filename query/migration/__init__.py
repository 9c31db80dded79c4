"""A collection moves to another encoder: by a map, or encoded again."""
