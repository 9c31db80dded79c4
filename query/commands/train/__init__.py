"""``dragoman train``: one file an encoder."""
