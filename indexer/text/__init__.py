"""A text's language and its terms."""
