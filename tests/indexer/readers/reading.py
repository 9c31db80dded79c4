"""What the tests of readers ask of a source."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from encoders.document import Document
from indexer.readers.formats import read
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark


def readings(path: Path, **options: Any) -> list[Reading]:
    return list(read(str(path), ReadOptions(**options)))


def documents(found: Iterable[Reading]) -> list[Document]:
    return [item for item in found if isinstance(item, Document)]


def refusals(found: Iterable[Reading]) -> list[Refusal]:
    return [item for item in found if isinstance(item, Refusal)]


def remarks(found: Iterable[Reading]) -> list[str]:
    return [item.text for item in found if isinstance(item, Remark)]
