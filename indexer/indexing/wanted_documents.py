"""Which documents need encoding: of an id the last of the highest revision, unless the store holds it unchanged.

One process stores chunks in order, so it asks the store. Workers store chunks in any order, so the ledger says which
documents of earlier chunks a chunk supersedes. Both store the same documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from encoders.document import Document
from indexer.stores.contract import Stamp


class EarlierDocuments(NamedTuple):
    """Number of a chunk, and its documents of one id with their positions in the chunk."""

    chunk: int
    documents: Sequence[tuple[int, Document]]


def wanted_in_process(
    documents: Sequence[Document], stamps: Mapping[str, Stamp], winning_stamps: Mapping[str, Stamp]
) -> list[bool]:
    """A flag for each document of a chunk: whether to encode the document, when earlier chunks are stored.

    ``stamps`` are those that the store has then. ``winning_stamps`` are those of the ids that the sources have more
    than once: while the store holds the winning document of an id, the others of the id are left out.
    """
    winning_rows = _winning_rows(documents)
    settled = {doc_id for doc_id, stamp in stamps.items() if stamp == winning_stamps.get(doc_id)}
    return _flags(documents, winning_rows, stamps, settled)


def wanted_for_workers(
    documents: Sequence[Document], stamps: Mapping[str, Stamp], earlier: Mapping[str, EarlierDocuments]
) -> tuple[list[bool], dict[str, list[int]]]:
    """Which documents of a chunk workers encode, and which documents of earlier chunks they do not encode any more.

    ``stamps`` are those of the stored documents, and ``earlier`` has the documents of the chunk's ids in earlier chunks
    of the run. Returns a flag for each document, and by id the positions in the earlier chunk that are superseded.
    """
    winning_rows = _winning_rows(documents)
    settled = {
        doc_id
        for doc_id, (_, others) in earlier.items()
        if any(other.revision > documents[winning_rows[doc_id]].revision for _, other in others)
    }
    superseded = {
        doc_id: [position for position, _ in others] for doc_id, (_, others) in earlier.items() if doc_id not in settled
    }
    return _flags(documents, winning_rows, stamps, settled), superseded


def stamps_of_winners(documents: Iterable[Document]) -> dict[str, Stamp]:
    """Stamp of the winning document of each id."""
    stamps: dict[str, Stamp] = {}
    for document in documents:
        if _replaces(document, stamps.get(document.doc_id)):
            stamps[document.doc_id] = Stamp.of(document)
    return stamps


def _winning_rows(documents: Sequence[Document]) -> dict[str, int]:
    """Row of the winning document, by id: each document replaces the document before it, if it may."""
    rows: dict[str, int] = {}
    for row, document in enumerate(documents):
        earlier_row = rows.get(document.doc_id)
        if earlier_row is None or _replaces(document, Stamp.of(documents[earlier_row])):
            rows[document.doc_id] = row
    return rows


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
    """Whether a document replaces an earlier one with this stamp: it differs, and its revision is no lower."""
    return stamp is None or (stamp != Stamp.of(document) and stamp.revision <= document.revision)
