"""What becomes of a chunk's documents once they are encoded: the one way into a store, here and in workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from encoders.document import Document, Encoded
from indexer.ledger import REFUSED, Note
from indexer.stores.contract import StoredDocument, VectorStore

NOTHING_KNOWN = "it has nothing the encoder knows"
"""Why a document is refused of which no part of the encoder knows anything."""


@dataclass(frozen=True)
class Outcome:
    """What became of some documents.

    Attributes:
        stored: how many were written.
        notes: which were refused, and why.
    """

    stored: int = 0
    notes: list[Note] = field(default_factory=list)


def put_encoded(store: VectorStore, model: str, documents: Sequence[Document], encoded: Encoded) -> Outcome:
    """Write documents with what the model made of them, but for those it knows nothing of.

    Raises:
        StoreError: the store failed; the same call again does no harm.
    """
    unknown = [not known.any() for known in encoded.known]
    items = [StoredDocument.of(document, encoded, at) for at, document in enumerate(documents) if not unknown[at]]
    report = store.put(model, items)
    notes = [
        Note(REFUSED, document.doc_id, document.doc_id, NOTHING_KNOWN)
        for document, nothing in zip(documents, unknown, strict=True)
        if nothing
    ]
    notes += [Note(REFUSED, doc_id, doc_id, reason) for doc_id, reason in report.refused.items()]
    return Outcome(report.stored, notes)
