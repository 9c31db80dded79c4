"""Store encoded documents: this process and the workers use the same functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from encoders.document import Document, Encoded, Encoder
from indexer.ledger.findings import NOTHING_KNOWN, Finding
from indexer.stores.contract import Stamp, StoredDocument, VectorStore, read_existing


@dataclass(frozen=True)
class StoringOutcome:
    """Number of documents stored, and the refused documents with the reasons."""

    stored: int = 0
    refused: list[Finding] = field(default_factory=list)


def put_encoded(store: VectorStore, model: str, documents: Sequence[Document], encoded: Encoded) -> StoringOutcome:
    """Store documents with their vectors, if the encoder knows something of them; repeating the call does no harm."""
    unknown = [not known.any() for known in encoded.known]
    items = [StoredDocument.of(document, encoded, row) for row, document in enumerate(documents) if not unknown[row]]
    report = store.put(model, items)
    refused = [
        Finding.refusal(document.doc_id, NOTHING_KNOWN) for row, document in enumerate(documents) if unknown[row]
    ]
    refused += [Finding.refusal(doc_id, reason) for doc_id, reason in report.refused.items()]
    return StoringOutcome(report.stored, refused)


def add_vectors(
    store: VectorStore, encoder: Encoder, documents: Sequence[Document], encoded: Encoded
) -> StoringOutcome:
    """Add another encoder's vectors to documents in the store, except documents deleted during the encoding.

    Documents changed during the encoding are encoded again; repeating the call does no harm.
    """
    outcome = StoringOutcome()
    while documents:
        doc_ids = [document.doc_id for document in documents]
        current = {document.doc_id: document for document in existing_documents(store, doc_ids)}
        rows = [row for row, document in enumerate(documents) if _is_unchanged(document, current)]
        unchanged = Encoded(encoded.vectors[rows], [encoded.passages[row] for row in rows], encoded.known[rows])
        added = put_encoded(store, encoder.spec.model, [documents[row] for row in rows], unchanged)
        outcome = StoringOutcome(outcome.stored + added.stored, [*outcome.refused, *added.refused])
        documents = [
            current[document.doc_id]
            for document in documents
            if document.doc_id in current and not _is_unchanged(document, current)
        ]
        encoded = encoder.encode_documents(documents) if documents else encoded
    return outcome


def needs_encoding(document: Document, stamp: Stamp | None) -> bool:
    """Whether a document replaces the stored one with this stamp: it differs, and its revision is no lower."""
    return stamp is None or (stamp != Stamp.of(document) and stamp.revision <= document.revision)


def existing_documents(store: VectorStore, doc_ids: Sequence[str]) -> list[Document]:
    """The documents with these ids, without deleted documents."""
    return list(read_existing(store.get, doc_ids).values())


def _is_unchanged(document: Document, current: Mapping[str, Document]) -> bool:
    """Whether the store still holds a document as it was encoded."""
    return document.doc_id in current and Stamp.of(document) == Stamp.of(current[document.doc_id])
