"""How much of one document's content is in another, by their passages: a single vector of a document blurs that."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from encoders.document import FloatArray, Int8Array, IntArray, Passages, int8_rows, unit_rows

_BLOCK = 16_384


@dataclass(frozen=True)
class PassageRows:
    """The passages of many documents; the passages of a document are consecutive rows."""

    vectors: Int8Array  # (passages, dim) int8, as in ``Passages``
    starts: IntArray  # (documents + 1,) first row of each document, then the number of rows; no document is empty

    @classmethod
    def pack(cls, passages: Sequence[Passages], vectors: FloatArray) -> "PassageRows":
        """Put documents' passages together; a document without any gets its row of ``vectors`` as its only passage."""
        parts = [
            document_passages.vectors if len(document_passages.vectors) else int8_rows(vectors[row : row + 1])
            for row, document_passages in enumerate(map(Passages.without_title, passages))
        ]
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.concatenate(parts) if parts else np.zeros((0, vectors.shape[1]), np.int8), starts)

    @cached_property
    def scales(self) -> FloatArray:
        """(passages,) factors that make each row a unit vector; a zero row stays zero."""
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float32)
        return np.asarray(1 / np.maximum(np.sqrt(squares), 1), dtype=np.float32)

    def blocks(self) -> Iterator[FloatArray]:
        """All passages in order as float32 unit rows, in blocks of at most 16,384."""
        for start in range(0, len(self.vectors), _BLOCK):
            yield unit_rows(self.vectors[start : start + _BLOCK])

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> "PassageRows":
        """The same passages with ``change`` applied to blocks of unit vectors."""
        vectors = np.empty_like(self.vectors)
        for index, block in enumerate(self.blocks()):
            vectors[index * _BLOCK : index * _BLOCK + len(block)] = int8_rows(change(block))
        return PassageRows(vectors, self.starts)


def coverage(a: PassageRows, b: PassageRows, rows: IntArray, cols: IntArray) -> FloatArray:
    """How well the two documents of each pair cover each other: (pairs,) float32 in [−1, 1].

    It is the mean of the best cosines of a document's passages. The lesser of both directions counts, because a long
    page covers any short page a little. ``rows`` are documents of the first side, ascending, ``cols`` of the second.
    """
    result = np.empty(len(rows), np.float32)
    if not len(rows):
        return result
    counts = np.diff(b.starts)
    documents, firsts = np.unique(rows, return_index=True)
    for document, first, last in zip(
        documents.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True
    ):
        partners = cols[first:last]
        partner_counts = counts[partners]
        ends = np.cumsum(partner_counts)
        starts = ends - partner_counts
        passage_rows = np.arange(ends[-1]) + np.repeat(b.starts[partners] - starts, partner_counts)
        document_vectors = unit_rows(a.vectors[a.starts[document] : a.starts[document + 1]])
        cosines = (document_vectors @ b.vectors[passage_rows].astype(np.float32).T) * b.scales[passage_rows]
        forward = np.maximum.reduceat(cosines, starts, axis=1).mean(axis=0)
        backward = np.add.reduceat(cosines.max(axis=0), starts) / partner_counts
        result[first:last] = np.minimum(forward, backward)
    return result
