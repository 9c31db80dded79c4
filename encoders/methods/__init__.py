"""How a document's vector is made of its text, one file a method; :func:`open_encoder` chooses."""
