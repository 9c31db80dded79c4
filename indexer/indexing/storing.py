"""What becomes of a chunk's documents once they are encoded: the one way into a store, here and in workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from encoders.document import Document, Encoded, Encoder
from indexer.ledger.ledger import Note
from indexer.ledger.tables import REFUSED
from indexer.stores.contract import Stamp, StoredDocument, VectorStore

NOTHING_KNOWN = "it has nothing the encoder knows"
"""Why a document is refused of which no part of the encoder knows anything."""


@dataclass(frozen=True)
class StoringOutcome:
    """What became of some documents.

    Attributes:
        stored: how many were written.
        notes: which were refused, and why.
    """

    stored: int = 0
    notes: list[Note] = field(default_factory=list)


def put_encoded(store: VectorStore, model: str, documents: Sequence[Document], encoded: Encoded) -> StoringOutcome:
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
    return StoringOutcome(report.stored, notes)


def put_beside(store: VectorStore, encoder: Encoder, documents: Sequence[Document], encoded: Encoded) -> StoringOutcome:
    """Write what another model made of documents that a store has, but for those that went while it was at work.

    Those that were changed meanwhile are encoded as they are now.

    Raises:
        StoreError: the store failed; the same call again does no harm.
    """
    outcome = StoringOutcome()
    while documents:
        now = {one.doc_id: one for one in existing_documents(store, [document.doc_id for document in documents])}
        same = [at for at, one in enumerate(documents) if one.doc_id in now and _is_same(one, now[one.doc_id])]
        made = Encoded(encoded.vectors[same], [encoded.passages[at] for at in same], encoded.known[same])
        some = put_encoded(store, encoder.spec.model, [documents[at] for at in same], made)
        outcome = StoringOutcome(outcome.stored + some.stored, [*outcome.notes, *some.notes])
        documents = [now[one.doc_id] for one in documents if one.doc_id in now and not _is_same(one, now[one.doc_id])]
        encoded = encoder.encode_documents(documents) if documents else encoded
    return outcome


def existing_documents(store: VectorStore, doc_ids: Sequence[str]) -> list[Document]:
    """The documents of some ids, without those that are gone: these are found by halving."""
    try:
        return store.get(doc_ids)
    except KeyError:
        if len(doc_ids) == 1:
            return []
        middle = len(doc_ids) // 2
        return [*existing_documents(store, doc_ids[:middle]), *existing_documents(store, doc_ids[middle:])]


def _is_same(one: Document, other: Document) -> bool:
    return Stamp.of(one) == Stamp.of(other)
