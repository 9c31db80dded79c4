"""A paper's table, computed: one file a table."""
