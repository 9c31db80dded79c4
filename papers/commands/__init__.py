"""One file for each table: options in, a table out."""
