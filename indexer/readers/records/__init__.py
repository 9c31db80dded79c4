"""What readers share: the files of a source, their encodings, records, and what is refused."""
