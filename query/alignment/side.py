"""One side of an alignment: documents' vectors and passages, read from a collection or encoded on the spot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from encoders.console import Progress
from encoders.document import Document, Encoder, FloatArray, Passages, encode_in_batches, unit_rows
from encoders.methods.moments import Moments
from indexer.stores.contract import VectorStore
from query.alignment.coverage import PassageRows

_BATCH = 64


@dataclass(frozen=True)
class Side:
    """Documents to be paired with another side's."""

    name: str  # what messages call the side
    doc_ids: Sequence[str]  # (n,) ids
    vectors: FloatArray  # (n, dim) float32 unit rows
    passages: PassageRows
    values: Sequence[str | None]  # (n,) value of the field that true pairs share, as text; none if a document has none
    unknown: Sequence[str] = field(default=())  # ids of documents without a word that the encoder knows, left out


def stored_side(name: str, store: VectorStore, model: str, lang: str, gold: str) -> Side:
    """The documents of a collection in one language; ``gold`` names the field that a true pair shares."""
    documents = (
        (item.document, item.vector, item.passages, any(item.known))
        for page in store.scan(model, lang=lang)
        for item in page
    )
    return _side(name, documents, store.models()[model], gold)


def encoded_side(name: str, documents: Iterable[Document], encoder: Encoder, gold: str, progress: Progress) -> Side:
    """Encode documents in batches; of documents with one id the last counts. ``gold``: the field of true pairs."""
    latest = {document.doc_id: document for document in documents}
    progress.expect(len(latest))
    encoded_documents = (
        (document, encoded.vectors[row], encoded.passages[row], bool(encoded.known[row].any()))
        for batch, encoded in encode_in_batches(encoder, latest.values(), _BATCH, progress)
        for row, document in enumerate(batch)
    )
    return _side(name, encoded_documents, encoder.spec.dim, gold)


def _side(name: str, documents: Iterable[tuple[Document, FloatArray, Passages, bool]], dim: int, gold: str) -> Side:
    """The side of documents with their vectors and passages, and whether the encoder knows any of their text."""
    doc_ids: list[str] = []
    rows: list[FloatArray] = []
    all_passages: list[Passages] = []
    values: list[str | None] = []
    unknown: list[str] = []
    for document, vector, passages, known in documents:
        if known:
            value = document.fields.get(gold) if gold else None
            doc_ids.append(document.doc_id)
            rows.append(vector)
            all_passages.append(passages)
            values.append(None if value in (None, "") else str(value))
        else:
            unknown.append(document.doc_id)
    vectors = np.stack(rows) if rows else np.zeros((0, dim), np.float32)
    return Side(name, doc_ids, vectors, PassageRows.pack(all_passages, vectors), values, unknown)


def debiased(side: Side, rank: int | None) -> Side:
    """A side without what all of its documents share (LAWDR, section 3.2); a single document keeps its vector.

    Rank none changes nothing, 0 subtracts the mean, and m takes out the subspace of the m strongest directions. The
    passages lose the mean or subspace of the passages.
    """
    if rank is None or len(side.doc_ids) < 2:
        return side
    documents, passages = Moments(side.vectors.shape[1]), Moments(side.vectors.shape[1])
    documents.add(side.vectors)
    for block in side.passages.blocks():
        passages.add(block)
    return replace(
        side,
        vectors=unit_rows(_without(side.vectors, documents, rank)),
        passages=side.passages.changed(lambda block: _without(block, passages, rank)),
    )


def _without(vectors: FloatArray, moments: Moments, rank: int) -> FloatArray:
    if not rank:
        return vectors - moments.mean.astype(np.float32)
    subspace = moments.subspace(rank)
    return (vectors - vectors @ subspace.T @ subspace).astype(np.float32, copy=False)


def mapped(side: Side, matrix: FloatArray) -> Side:
    """A side with each vector multiplied by a (dim, dim) matrix from the right, then normalised to unit length."""
    return replace(
        side, vectors=unit_rows(side.vectors @ matrix), passages=side.passages.changed(lambda block: block @ matrix)
    )
