"""What commands print: a result becomes lines, a table, or JSON."""
