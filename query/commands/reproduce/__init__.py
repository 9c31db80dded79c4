"""``dragoman reproduce``: one file a paper."""
