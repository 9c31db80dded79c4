"""Sources → chunks: documents in a language, cut where the sources alone decide."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version

from encoders.console import Progress
from encoders.document import Document, short_hash
from encoders.errors import StoreError
from encoders.languages import UNDETERMINED
from indexer.ledger.ledger import Note
from indexer.ledger.tables import REFUSED, REMARK
from indexer.readers import Reading, ReadOptions, Refusal, Remark, count_records, fingerprint, read
from indexer.readers.irdatasets import PREFIX
from indexer.text.language_detection import Detector

CHUNK_DOCUMENTS = 64
CHUNK_CHARACTERS = 1_000_000
_CHUNKING = "1"
"""Counted up when readers or chunks cut the same sources otherwise: a run begun before is not gone on with then."""


@dataclass(frozen=True)
class Batch:
    """A chunk's documents with what was met while reading them."""

    number: int
    documents: list[Document]
    notes: list[Note]
    records: int

    @property
    def doc_ids(self) -> list[str]:
        """Of its documents, in their order."""
        return [document.doc_id for document in self.documents]

    @property
    def digest(self) -> str:
        """Of ids and texts: a source that gives others when it is read again is not gone on with."""
        return short_hash(*(part for document in self.documents for part in (document.doc_id, document.text_hash)))


def check_sources(sources: Sequence[str], options: ReadOptions) -> str:
    """See that every source is there before anything is made; returns what identifies them, unchanged as they are.

    Raises:
        BadInput: one is not there, or the options can't be used.
    """
    return short_hash(_CHUNKING, version("dragoman"), *(fingerprint(source, options) for source in sources))


def readings(sources: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    """Everything that some sources say, one after the other, every document with a language."""
    return _detected(one for source in sources for one in read(source, options))


def documents_with(doc_ids: Collection[str], sources: Sequence[str], options: ReadOptions) -> Iterator[Document]:
    """The documents of some ids, read from the sources' beginning."""
    everything = (one for source in sources for one in read(source, options))
    wanted = (one for one in everything if isinstance(one, Document) and one.doc_id in doc_ids)
    return (one for one in _detected(wanted) if isinstance(one, Document))


def _detected(readings: Iterable[Reading]) -> Iterator[Reading]:
    """The same, every document with a language."""
    detector = None
    for reading in readings:
        if isinstance(reading, Document) and reading.lang == UNDETERMINED:
            detector = detector or Detector(None)
            yield replace(reading, lang=detector.detect(reading.content).lang)
        else:
            yield reading


def batches(readings: Iterable[Reading]) -> Iterator[Batch]:
    """Chunks by number of documents and of characters: where they end depends on the sources alone."""
    number = 0
    documents: list[Document] = []
    notes: list[Note] = []
    characters = records = 0
    for reading in readings:
        records += not isinstance(reading, Remark)
        match reading:
            case Document():
                documents.append(reading)
                characters += len(reading.content)
            case Refusal(where, reason, doc_id):
                notes.append(Note(REFUSED, where, doc_id, reason))
            case Remark(where, text):
                notes.append(Note(REMARK, where, "", text))
        if len(documents) == CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS or len(notes) >= CHUNK_DOCUMENTS:
            yield Batch(number, documents, notes, records)
            number += 1
            documents, notes = [], []
            characters = records = 0
    if documents or notes:
        yield Batch(number, documents, notes, records)


def count_ahead(sources: Sequence[str], options: ReadOptions, progress: Progress) -> None:
    """Count the records in the background, so that the time left is known soon and the start does not wait."""

    def count() -> None:
        with suppress(StoreError):  # reading will say it
            progress.expect(sum(count_records(source, options) for source in sources))

    if any(source.startswith(PREFIX) for source in sources):
        return  # it may have to be fetched, and that once
    threading.Thread(target=count, name="count", daemon=True).start()
