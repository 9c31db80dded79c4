"""True pairs of documents, and the recall of an alignment over them."""

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from encoders.errors import BadInput
from indexer.readers.records.files import SourceFile, UnreadableFileError
from query.alignment.matching import Pairs
from query.alignment.side import Side


@dataclass(frozen=True)
class SharedValues:
    """True pairs are those whose documents have the same value of ``field``; there are ``count`` one-to-one pairs."""

    field: str
    count: int


Gold = SharedValues | AbstractSet[tuple[str, str]]
"""True pairs, by a field's value or as ids."""


@dataclass(frozen=True)
class Recall:
    """How many true pairs exist (``gold``), and how many an alignment found."""

    gold: int
    found: int

    @property
    def recall(self) -> float:
        """Share of the true pairs that the alignment found."""
        return self.found / self.gold


def shared_values(a: Side, b: Side, field: str) -> SharedValues:
    """True pairs of sides by a field; a value counts for as many pairs as the side with fewer such documents has.

    Raises BadInput: a side has no document with the field, or no value is on both sides.
    """
    for side in (a, b):
        if not any(side.values):
            raise BadInput(f"no document of {side.name} has a field {field!r}; name one that says which are the same")
    counts = [Counter(value for value in side.values if value is not None) for side in (a, b)]
    count = sum((counts[0] & counts[1]).values())
    if not count:
        raise BadInput(f"no value of {field!r} is in both {a.name} and {b.name}; name a field that they share")
    return SharedValues(field, count)


def stated_pairs(path: Path) -> AbstractSet[tuple[str, str]]:
    """The true pairs of a file: two ids with a tab; text after a second tab is ignored. Raises BadInput: no pairs."""
    file = SourceFile(path, str(path))
    pairs = set()
    try:
        for line in file.lines():
            where, text = file.at(file.line), line.decode("utf-8").rstrip("\r\n")
            columns = tuple(text.split("\t"))
            if not text.strip() or (file.line == 1 and columns[:2] == ("id_a", "id_b")):
                continue
            if len(columns) < 2 or not (columns[0] and columns[1]):
                raise BadInput(f"{where} is {text[:60]!r}, no pair; it should be: id_a TAB id_b")
            pairs.add((columns[0], columns[1]))
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.at(file.line)} is not UTF-8; convert the file to it") from error
    except UnreadableFileError as error:
        raise BadInput(f"the true pairs {file.shown} can't be read: {error}") from error
    if not pairs:
        raise BadInput(f"{file.shown} states no pairs; give lines of: id_a TAB id_b")
    return pairs


def recall_of(pairs: Pairs, a: Side, b: Side, gold: Gold) -> Recall:
    """Count the true pairs among an alignment's. Raises BadInput: no stated pair has both documents in these sides."""
    matched = list(zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True))
    if isinstance(gold, SharedValues):
        true_pairs = sum(a.values[row] is not None and a.values[row] == b.values[col] for row, col in matched)
        return Recall(gold.count, true_pairs)
    ids_a, ids_b = set(a.doc_ids), set(b.doc_ids)
    if not any(first in ids_a and second in ids_b for first, second in gold):
        raise BadInput(
            f"no true pair is of {a.name} and {b.name}; see that their ids are in the file, {a.name}'s first"
        )
    return Recall(len(gold), sum((a.doc_ids[row], b.doc_ids[col]) in gold for row, col in matched))
