"""Which documents need encoding: of an id the last of the highest revision, unless the store holds it unchanged.

One process and the publisher for workers use the same rule, so both store the same documents.
"""

from __future__ import annotations

from collections.abc import Sequence

from encoders.document import Document
from indexer.stores.contract import Stamp


def counting_rows(documents: Sequence[Document]) -> dict[str, int]:
    """Row of the document that counts, by id: each document replaces the one before it, if it may."""
    rows: dict[str, int] = {}
    for row, document in enumerate(documents):
        earlier_row = rows.get(document.doc_id)
        if earlier_row is None or replaces(document, Stamp.of(documents[earlier_row])):
            rows[document.doc_id] = row
    return rows


def replaces(document: Document, stamp: Stamp | None) -> bool:
    """Whether a document replaces an earlier one with this stamp: it differs, and its revision is no lower."""
    return stamp is None or (stamp != Stamp.of(document) and stamp.revision <= document.revision)
