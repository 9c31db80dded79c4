"""Document alignment: one-to-one pairs of documents of two languages, by margin (LAWDR), and mate retrieval."""
