"""Readers of parallel text: aligned tables, JSON lines, Moses pairs, TMX, a file per language with common ids."""
