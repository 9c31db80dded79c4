"""What a reader of parallel text yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indexer.readers.source import Refusal


@dataclass(frozen=True)
class AlignedSentence:
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


def row(where: str, texts: Mapping[str, str]) -> AlignedSentence | Refusal:
    """A sentence's texts as they were found; a refusal where they are not two."""
    return AlignedSentence(where, texts) if len(texts) > 1 else Refusal(where, _ALONE)


NOT_UTF8 = "it is not UTF-8; convert the file with iconv"
_ALONE = "it has text in fewer than two languages; name them by tags such as en and de"
