"""What a reader of parallel text yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Aligned:
    """One sentence in several languages.

    Attributes:
        where: file and line, or id.
        texts: by normalised tag, as they stand in the file.
    """

    where: str
    texts: Mapping[str, str]


def decoded(line: bytes) -> str | None:
    """A line as text; None where it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


NOT_UTF8 = "it is not UTF-8; convert the file with iconv"
