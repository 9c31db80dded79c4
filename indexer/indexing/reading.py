"""Sources → chunks of documents with languages; the sources alone decide where a chunk ends."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

from encoders.document import Document, short_hash
from indexer.indexing.duplicates import OnDuplicate
from indexer.ledger.findings import Finding
from indexer.ledger.ledger import ReadChunk
from indexer.ledger.tables import REFUSED, REMARK
from indexer.readers.document_languages import with_languages
from indexer.readers.formats import fingerprint, read_all
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

CHUNK_DOCUMENTS = 64
CHUNK_CHARACTERS = 1_000_000
_CHUNKING = "5"
"""Version of readers and chunks. Raise it when the same sources give other chunks: an older run is then not resumed."""


def check_sources(sources: Sequence[str], options: ReadOptions) -> str:
    """A fingerprint of the unchanged sources. Raises BadInput: a source does not exist, or an option is unusable."""
    return short_hash(_CHUNKING, version("dragoman"), *(fingerprint(source, options) for source in sources))


def run_fingerprint(sources: Sequence[str], options: ReadOptions, generation: int, on_duplicate: OnDuplicate) -> str:
    """A fingerprint of the unchanged sources and of a run's choices: the run is resumed while it is the same.

    The languages that guesses of encodings lean on stand behind it, each after ``+``.
    """
    unchanged = check_sources(sources, replace(options, languages=()))
    return "+".join([short_hash(unchanged, str(generation), on_duplicate), *options.languages])


def leant_on(fingerprint: str) -> tuple[str, list[str]]:
    """A run's fingerprint without the languages behind it, and these."""
    alone, *languages = fingerprint.split("+")
    return alone, languages


def readings(sources: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    """All readings of the sources in order, every document with a language."""
    return with_languages(read_all(sources, options))


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
            case Remark(place, text, doc_id):
                findings.append(Finding(REMARK, place, doc_id, text))
        if len(documents) == CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS or len(findings) >= CHUNK_DOCUMENTS:
            yield ReadChunk(number, documents, findings, records)
            number += 1
            documents, findings = [], []
            characters = records = 0
    if documents or findings:
        yield ReadChunk(number, documents, findings, records)
