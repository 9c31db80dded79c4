"""One side of an alignment: documents' vectors and passages, from a collection or encoded here and now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from encoders.console import Progress
from encoders.document import Document, Encoder, FloatArray, Passages, unit_rows
from encoders.methods.moments import Moments
from indexer.stores.contract import VectorStore
from query.alignment.coverage import IntArray, PassageRows

_TOGETHER = 64


@dataclass(frozen=True)
class Side:
    """Documents to be paired with another side's.

    Attributes:
        name: what messages call it.
        doc_ids: (n,) ids.
        vectors: (n, dim) float32 unit rows.
        passages: of the n documents.
        values: (n,) the field that gold pairs share, as text; none where a document has none.
        unknown: ids of documents left out because the encoder knows nothing in them.
    """

    name: str
    doc_ids: Sequence[str]
    vectors: FloatArray
    passages: PassageRows
    values: Sequence[str | None]
    unknown: Sequence[str] = field(default=())

    def only(self, places: IntArray) -> Side:
        """Some of the documents, in the order of their places."""
        return replace(
            self,
            doc_ids=[self.doc_ids[at] for at in places],
            vectors=self.vectors[places],
            passages=self.passages.only(places),
            values=[self.values[at] for at in places],
        )


def stored_side(name: str, store: VectorStore, model: str, lang: str, gold: str = "") -> Side:
    """The documents of a collection in one language.

    Args:
        name: what messages call it.
        store: holds them.
        model: whose vectors.
        lang: which documents.
        gold: field that the two documents of a true pair share.
    """
    parts = _Parts(gold)
    for page in store.scan(model, lang=lang):
        for item in page:
            parts.add(item.document, item.vector, item.passages, known=any(item.known))
    return parts.side(name, store.models()[model])


def encoded_side(
    name: str, documents: Iterable[Document], encoder: Encoder, gold: str = "", progress: Progress | None = None
) -> Side:
    """Documents, encoded some at a time; of two with one id the later one counts.

    Args:
        name: what messages call it.
        documents: as they are read.
        encoder: makes the vectors.
        gold: field that the two documents of a true pair share.
        progress: is told of each document.
    """
    progress = progress or Progress()
    latest = {document.doc_id: document for document in documents}
    progress.expect(len(latest))
    parts = _Parts(gold)
    every = list(latest.values())
    for start in range(0, len(every), _TOGETHER):
        some = every[start : start + _TOGETHER]
        encoded = encoder.encode_documents(some)
        for at, document in enumerate(some):
            parts.add(document, encoded.vectors[at], encoded.passages[at], known=bool(encoded.known[at].any()))
        progress(len(some))
    return parts.side(name, encoder.spec.dim)


class _Parts:
    def __init__(self, gold: str) -> None:
        self.gold = gold
        self.doc_ids: list[str] = []
        self.vectors: list[FloatArray] = []
        self.passages: list[Passages] = []
        self.values: list[str | None] = []
        self.unknown: list[str] = []

    def add(self, document: Document, vector: FloatArray, passages: Passages, *, known: bool) -> None:
        if not known:
            self.unknown.append(document.doc_id)
            return
        value = document.fields.get(self.gold) if self.gold else None
        self.doc_ids.append(document.doc_id)
        self.vectors.append(vector)
        self.passages.append(passages)
        self.values.append(None if value in (None, "") else str(value))

    def side(self, name: str, dim: int) -> Side:
        vectors = np.stack(self.vectors) if self.vectors else np.zeros((0, dim), np.float32)
        return Side(name, self.doc_ids, vectors, PassageRows.pack(self.passages, vectors), self.values, self.unknown)


def debiased(side: Side, rank: int | None) -> Side:
    """A side without what all of its documents share (LAWDR, section 3.2).

    Args:
        side: with vectors as the encoder made them.
        rank: none: leave them; 0: take their mean out; m: the subspace of their m strongest directions. Passages lose
            their own. A single document keeps its vector: it is its own mean.
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
        mean: FloatArray = moments.mean.astype(np.float32)
        return vectors - mean
    subspace = moments.subspace(rank)
    rest: FloatArray = (vectors - vectors @ subspace.T @ subspace).astype(np.float32, copy=False)
    return rest


def mapped(side: Side, matrix: FloatArray) -> Side:
    """A side with each vector multiplied by a (dim, dim) matrix from the right, and of unit length again."""
    return replace(
        side, vectors=unit_rows(side.vectors @ matrix), passages=side.passages.changed(lambda block: block @ matrix)
    )
