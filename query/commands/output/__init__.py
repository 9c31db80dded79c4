"""Output of the commands: results as lines, tables or JSON."""
