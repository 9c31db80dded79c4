"""What the tests of readers ask of a source."""

import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoders.document import Document
from indexer.readers.formats import read
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

A, B, X = Document("a", "und", "x"), Document("b", "und", "x"), Document("1", "und", "a")
GAPS = "NaN, Infinity, None and the like are read as missing values: {}"
IDS_FROM = "the field {!r} holds the ids; if another does, say --field id=NAME"
MADE = (
    "records without an id have FILE:LINE as their id, which changes if records are inserted before them; if a field "
    "holds the id, say --field id=NAME"
)

Seen = Document | tuple[str, str]
"""A document; of a refusal or a remark the name of its place and what it says."""


def readings(path: Path, **options: Any) -> list[Reading]:
    return list(read(str(path), ReadOptions(**options)))


def given(path: Path, content: str | bytes, **options: Any) -> list[Seen]:
    """What is seen in a file with this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return seen(readings(path, **options))


def seen(found: Iterable[Reading]) -> list[Seen]:
    return [item if isinstance(item, Document) else (Path(item.place).name, item.text) for item in found]


def notes(found: Iterable[Seen]) -> list[tuple[str, str]]:
    return [item for item in found if isinstance(item, tuple)]


def documents(found: Iterable[object]) -> list[Document]:
    return [item for item in found if isinstance(item, Document)]


def refusals(found: Iterable[Reading]) -> list[Refusal]:
    return [item for item in found if isinstance(item, Refusal)]


def remarks(found: Iterable[Reading]) -> list[str]:
    return [item.text for item in found if isinstance(item, Remark)]


def ids(found: Iterable[object]) -> list[str]:
    return [document.doc_id for document in documents(found)]


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fail where Python's objects take more bytes than this at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
