"""Collections by name, and their generations."""
