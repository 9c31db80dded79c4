"""Names of collections."""

import re
from collections.abc import Sequence
from typing import Self

from encoders.errors import BadInput
from encoders.phrases import did_you_mean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A name is part of the names of files, locks and indices; it must not lead out of their folder."""


class NoCollection(BadInput):
    """There is no collection of a name."""

    @classmethod
    def among(cls, names: Sequence[str], name: str) -> Self:
        """The error that names all collections."""
        return cls(
            f"there is no collection {name!r}{did_you_mean(name, names)} "
            f"(there are: {', '.join(names) or 'none yet'}); make it: dragoman index SOURCE -c {name}"
        )


def check_collection_name(name: object) -> None:
    """Raise ``BadInput`` if a collection can't have this name."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        shown = f"{str(name)[:40]!r}{'…' if len(str(name)) > 40 else ''}"
        raise BadInput(
            f"a collection can't be named {shown}; take at most 100 of a-z, A-Z, 0-9, '.', '-' and '_', "
            "of which the first is a letter or digit"
        )
