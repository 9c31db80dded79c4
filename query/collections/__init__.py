"""A collection as a whole, its status and its removal."""
