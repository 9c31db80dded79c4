"""The sample of a migration: some documents and their first passages, encoded by both encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.errors import BadInput
from indexer.stores.contract import VectorStore
from query.drawing import drawn
from query.language_statistics import pseudo_queries
from query.migration_map import FEWEST, Both

_TOGETHER = 64
_PASSAGES = 8
"""Of a document of the sample, at most: they teach more than as many documents would (docs/methods.md)."""


def both_of(
    store: VectorStore, old: Encoder, new: Encoder, sample: int, seed: int, console: Console
) -> dict[str, Both]:
    """A sample of a collection's documents, as many of each language as there can be, by language.

    Args:
        store: holds the documents and the old encoder's vectors.
        old: the encoder they are of.
        new: the other one.
        sample: documents over all languages.
        seed: of the draw.
        console: where progress goes.

    Raises:
        BadInput: there are too few to learn a map from.
    """
    doc_ids = drawn(store, old.spec.model, sample, seed=seed)
    count = sum(map(len, doc_ids.values()))
    if count < FEWEST:
        raise BadInput(
            f"the sample has {count} documents, and a map needs {FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    stored = {lang: _Stored.of(store, old, some) for lang, some in doc_ids.items()}
    texts = count + sum(len(one.pieces) for one in stored.values())
    with console.progress("sample", texts, "documents and passages") as advance:
        return {lang: one.encoded(old, new, advance) for lang, one in stored.items()}


@dataclass(frozen=True)
class _Stored:
    """Documents of one language as the store has them.

    Attributes:
        documents: the documents.
        vectors: (n, dim) of the documents.
        pieces: (p,) their first passages, as documents.
        rows: (p,) row of the document that each is of.
        passages: (p, dim) stored vectors of the passages.
    """

    documents: Sequence[Document]
    vectors: FloatArray
    pieces: Sequence[Document]
    rows: npt.NDArray[np.intp]
    passages: FloatArray

    @classmethod
    def of(cls, store: VectorStore, old: Encoder, doc_ids: Sequence[str]) -> _Stored:
        """Read them."""
        documents = store.get(doc_ids)
        pieces, rows, passages = _pieces(documents, store.passages(old.spec.model, doc_ids), old.spec.dim)
        return cls(documents, store.vectors(old.spec.model, doc_ids), pieces, rows, passages)

    def encoded(self, old: Encoder, new: Encoder, advance: Progress) -> Both:
        """With what the new encoder makes of them, and pseudo-queries by both."""
        return Both(
            self.documents,
            self.vectors,
            _encoded(new, self.documents, advance),
            _asked(old, self.documents),
            _asked(new, self.documents),
            self.rows,
            self.passages,
            _encoded(new, self.pieces, advance),
        )


def _pieces(
    documents: Sequence[Document], passages: Sequence[Passages], dim: int
) -> tuple[list[Document], npt.NDArray[np.intp], FloatArray]:
    """The first passages of documents as documents, the row each is of, and their stored vectors."""
    pieces, rows, vectors = list[Document](), list[int](), [np.zeros((0, dim), np.float32)]
    for row, (document, stored) in enumerate(zip(documents, passages, strict=True)):
        offsets = stored.offsets[:_PASSAGES].tolist()
        pieces += [Document(document.doc_id, document.lang, document.content[start:end]) for start, end in offsets]
        rows += [row] * len(offsets)
        vectors.append(stored.unit_vectors()[:_PASSAGES])
    return pieces, np.array(rows, dtype=np.intp), np.concatenate(vectors)


def _encoded(encoder: Encoder, documents: Sequence[Document], advance: Progress) -> FloatArray:
    vectors = [np.zeros((0, encoder.spec.dim), np.float32)]
    for start in range(0, len(documents), _TOGETHER):
        some = documents[start : start + _TOGETHER]
        vectors.append(encoder.encode_documents(some).vectors)
        advance(len(some))
    return np.concatenate(vectors)


def _asked(encoder: Encoder, documents: Sequence[Document]) -> FloatArray:
    """Documents' pseudo-queries; zero rows where a document has none of its own."""
    asked = pseudo_queries(documents)
    row = {document.doc_id: at for at, document in enumerate(documents)}
    vectors = np.zeros((len(documents), encoder.spec.dim), np.float32)
    if asked:
        vectors[[row[query.doc_id] for query in asked]] = encoder.encode_queries(asked)
    return vectors
