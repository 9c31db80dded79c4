"""A collection as a whole: what is known of it, and its end."""
