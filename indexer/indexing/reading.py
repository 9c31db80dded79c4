"""Sources → chunks of documents with languages; the sources alone decide where a chunk ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version

from encoders.console import Progress
from encoders.document import Document, short_hash
from encoders.errors import DragomanError
from indexer.indexing.wanted_documents import OnDuplicate
from indexer.ledger.findings import Finding
from indexer.ledger.ledger import ReadChunk
from indexer.ledger.tables import REFUSED, REMARK
from indexer.readers.documents import with_languages
from indexer.readers.formats import count_records, fingerprint, read_all
from indexer.readers.irdatasets import PREFIX
from indexer.readers.source import Reading, ReadOptions, Refusal, Remark
from indexer.readers.source_labels import source_labels

CHUNK_DOCUMENTS = 64
CHUNK_CHARACTERS = 1_000_000
_CHUNKING = "3"
"""Version of readers and chunks. Raise it when the same sources give other chunks: an older run is then not resumed."""


def check_sources(sources: Sequence[str], options: ReadOptions) -> str:
    """Check that every source exists; returns a fingerprint of the unchanged sources.

    Raises:
        BadInput: a source does not exist, or the options can't be used.
    """
    fingerprints = [fingerprint(source, options) for source in sources]
    labels = map(os.fsencode, source_labels(sources).values())
    return short_hash(_CHUNKING, version("dragoman"), *fingerprints, *labels)


def run_fingerprint(
    sources: Sequence[str], options: ReadOptions, generation: int, on_duplicate: OnDuplicate = "last"
) -> str:
    """A fingerprint of the unchanged sources and of a run's choices: the run is resumed while it is the same.

    Raises:
        BadInput: as ``check_sources``.
    """
    winner = "first" if on_duplicate == "first" else "last"
    return short_hash(check_sources(sources, options), str(generation), winner)


def readings(sources: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    """All readings of the sources in order, every document with a language."""
    return with_languages(read_all(sources, options))


def documents_with(doc_ids: Collection[str], sources: Sequence[str], options: ReadOptions) -> Iterator[Document]:
    """The documents with these ids, read from the sources' beginning, every document with a language."""
    if not doc_ids:
        return iter(())
    documents = (
        reading for reading in read_all(sources, options) if isinstance(reading, Document) and reading.doc_id in doc_ids
    )
    return (reading for reading in with_languages(documents) if isinstance(reading, Document))


def read_chunks(readings: Iterable[Reading]) -> Iterator[ReadChunk]:
    """Chunks, limited by documents, characters and findings: where a chunk ends depends on the sources alone."""
    number = 0
    documents: list[Document] = []
    findings: list[Finding] = []
    characters = records = 0
    for reading in readings:
        records += not isinstance(reading, Remark)
        match reading:
            case Document():
                documents.append(reading)
                characters += len(reading.content)
            case Refusal(place, text, doc_id):
                findings.append(Finding(REFUSED, place, doc_id, text))
            case Remark(place, text):
                findings.append(Finding(REMARK, place, "", text))
        if len(documents) == CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS or len(findings) >= CHUNK_DOCUMENTS:
            yield ReadChunk(number, documents, findings, records)
            number += 1
            documents, findings = [], []
            characters = records = 0
    if documents or findings:
        yield ReadChunk(number, documents, findings, records)


def count_ahead(sources: Sequence[str], options: ReadOptions, progress: Progress) -> None:
    """Count the records in the background, so that the time left is known soon without a delay at the start."""

    def count() -> None:
        with suppress(DragomanError):  # reading raises the same error
            progress.expect(sum(count_records(source, options) for source in sources))

    if any(source.startswith(PREFIX) for source in sources):
        return  # the data set may have to be downloaded, and reading does that
    threading.Thread(target=count, name="count", daemon=True).start()
