"""A user's own index gets vectors, and keeps them up to date."""
