"""Which documents need encoding: of an id the last of the highest revision, unless the store holds it unchanged.

The first of the highest revision counts instead where the user says so. One process stores chunks in order, so it asks
the store. Workers store chunks in any order, so the ledger says which documents of earlier chunks a chunk supersedes.
Both store the same documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from encoders.document import Document
from indexer.stores.contract import Stamp

OnDuplicate = Literal["last", "first", "error"]
"""What an index run does with documents that have the same id: of the highest revision the last or the first counts,
or nothing is indexed."""

ON_DUPLICATE: tuple[OnDuplicate, ...] = get_args(OnDuplicate)


class EarlierDocuments(NamedTuple):
    """Number of a chunk, and its documents of one id with their positions in the chunk."""

    chunk: int
    documents: Sequence[tuple[int, Document]]


def wanted_in_process(
    documents: Sequence[Document],
    stamps: Mapping[str, Stamp],
    winning_stamps: Mapping[str, Stamp],
    on_duplicate: OnDuplicate = "last",
) -> list[bool]:
    """A flag for each document of a chunk: whether to encode the document, when earlier chunks are stored.

    ``stamps`` are those that the store has then. ``winning_stamps`` are those of the ids that the sources have more
    than once: while the store holds the winning document of an id, the others of the id are left out. If the first
    counts, the others are always left out, and ``winning_stamps`` must have every such id.
    """
    winning_rows = _winning_rows(documents, on_duplicate)
    settled = {doc_id for doc_id, stamp in stamps.items() if stamp == winning_stamps.get(doc_id)}
    if on_duplicate == "first":
        chunk_stamps = {doc_id: Stamp.of(documents[row]) for doc_id, row in winning_rows.items()}
        settled |= {doc_id for doc_id, stamp in chunk_stamps.items() if winning_stamps.get(doc_id, stamp) != stamp}
    return _flags(documents, winning_rows, stamps, settled)


def wanted_for_workers(
    documents: Sequence[Document],
    stamps: Mapping[str, Stamp],
    earlier: Mapping[str, EarlierDocuments],
    on_duplicate: OnDuplicate = "last",
) -> tuple[list[bool], dict[str, list[int]]]:
    """Which documents of a chunk workers encode, and which documents of earlier chunks they do not encode any more.

    ``stamps`` are those of the stored documents, and ``earlier`` has the documents of the chunk's ids in earlier chunks
    of the run. Returns a flag for each document, and by id the positions in the earlier chunk that are superseded.
    """
    winning_rows = _winning_rows(documents, on_duplicate)
    settled = {
        doc_id
        for doc_id, (_, others) in earlier.items()
        if any(not _wins(documents[winning_rows[doc_id]], other.revision, on_duplicate) for _, other in others)
    }
    superseded = {
        doc_id: [position for position, _ in others] for doc_id, (_, others) in earlier.items() if doc_id not in settled
    }
    return _flags(documents, winning_rows, stamps, settled), superseded


def stamps_of_winners(documents: Iterable[Document], on_duplicate: OnDuplicate = "last") -> dict[str, Stamp]:
    """Stamp of the winning document of each id."""
    stamps: dict[str, Stamp] = {}
    for document in documents:
        earlier = stamps.get(document.doc_id)
        if earlier is None or _wins(document, earlier.revision, on_duplicate):
            stamps[document.doc_id] = Stamp.of(document)
    return stamps


def _winning_rows(documents: Sequence[Document], on_duplicate: OnDuplicate) -> dict[str, int]:
    """Row of the winning document, by id."""
    rows: dict[str, int] = {}
    for row, document in enumerate(documents):
        earlier_row = rows.get(document.doc_id)
        if earlier_row is None or _wins(document, documents[earlier_row].revision, on_duplicate):
            rows[document.doc_id] = row
    return rows


def _wins(document: Document, earlier_revision: int, on_duplicate: OnDuplicate) -> bool:
    """Whether a document counts in place of an earlier document of the sources with its id."""
    if on_duplicate == "first":
        return document.revision > earlier_revision
    return document.revision >= earlier_revision


def _flags(
    documents: Sequence[Document],
    winning_rows: Mapping[str, int],
    stamps: Mapping[str, Stamp],
    settled: Collection[str],
) -> list[bool]:
    """A flag for each document: true for a winning document that replaces the stored one, unless its id is settled."""
    flags = [False] * len(documents)
    for doc_id, row in winning_rows.items():
        flags[row] = doc_id not in settled and _replaces(documents[row], stamps.get(doc_id))
    return flags


def _replaces(document: Document, stamp: Stamp | None) -> bool:
    """Whether a document replaces the stored document with this stamp: it differs, and its revision is no lower."""
    return stamp is None or (stamp != Stamp.of(document) and stamp.revision <= document.revision)
