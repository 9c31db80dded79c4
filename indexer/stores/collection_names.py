"""Names of collections."""

import re

from encoders.errors import BadInput

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A name is part of the names of files, locks and indices; it must not lead out of their folder."""


def check_collection_name(name: str) -> None:
    """Raise ``BadInput`` if a collection can't have this name."""
    if not NAME.fullmatch(name):
        shown = f"{name[:40]!r}{'…' if len(name) > 40 else ''}"
        raise BadInput(
            f"a collection can't be named {shown}; take at most 100 letters, digits, '.', '-' and '_', "
            "of which the first is a letter or digit"
        )
