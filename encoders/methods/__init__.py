"""Methods that make a document's vector from its text, one module each; :func:`open_encoder` chooses."""
