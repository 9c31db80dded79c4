"""The results of the readers of parallel text."""

from collections.abc import Mapping
from dataclasses import dataclass

from indexer.readers.records.source import Refusal


@dataclass(frozen=True)
class AlignedSentence:
    """One sentence in several languages."""

    place: str  # file and line, or id
    texts: Mapping[str, str]  # by normalised language tag, unchanged from the file


def decoded(line: bytes) -> str | None:
    """Decode a line; None where the line is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def row(place: str, texts: Mapping[str, str]) -> AlignedSentence | Refusal:
    """Make an aligned sentence of texts by language; a refusal where there are fewer than two texts."""
    return AlignedSentence(place, texts) if len(texts) > 1 else Refusal(place, _ALONE)


NOT_UTF8 = "it is not UTF-8; convert the file with iconv"
_ALONE = "it has text in fewer than two languages; name them by tags such as en and de"
