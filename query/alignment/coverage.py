"""How much of one document stands in another, by their passages: what a document's one vector blurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, Int8Array, Passages, int8_rows, unit_rows

IntArray = npt.NDArray[np.int64]

_BLOCK = 16_384


@dataclass(frozen=True)
class PassageRows:
    """The passages of many documents, a document's together.

    Attributes:
        vectors: (passages, dim) int8, as ``Passages`` has them.
        starts: (documents + 1,) first row of each document, and the end; no document is without.
    """

    vectors: Int8Array
    starts: IntArray

    @classmethod
    def pack(cls, passages: Sequence[Passages], vectors: FloatArray) -> PassageRows:
        """Put documents' passages together; one that has none is a passage itself.

        Args:
            passages: one for each document.
            vectors: (documents, dim) the documents' own.
        """
        parts = [
            own.vectors if len(own.vectors) else int8_rows(vectors[at : at + 1]) for at, own in enumerate(passages)
        ]
        starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.concatenate(parts) if parts else np.zeros((0, vectors.shape[1]), np.int8), starts)

    @cached_property
    def scales(self) -> FloatArray:
        """(passages,) what makes each row a unit vector; a row of nothing stays that."""
        parts = [np.zeros(0, np.float32)]
        for start in range(0, len(self.vectors), _BLOCK):
            lengths = np.linalg.norm(self.vectors[start : start + _BLOCK].astype(np.float32), axis=1)
            parts.append((1 / np.maximum(lengths, 1)).astype(np.float32))
        return np.concatenate(parts)

    def blocks(self) -> Iterator[FloatArray]:
        """All passages in order as float32 unit rows, some thousands at a time."""
        for start in range(0, len(self.vectors), _BLOCK):
            yield unit_rows(self.vectors[start : start + _BLOCK])

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> PassageRows:
        """The same passages, each unit vector changed."""
        vectors = np.empty_like(self.vectors)
        for at, block in enumerate(self.blocks()):
            vectors[at * _BLOCK : at * _BLOCK + len(block)] = int8_rows(change(block))
        return PassageRows(vectors, self.starts)

    def only(self, documents: IntArray) -> PassageRows:
        """The passages of some documents, in their order."""
        counts = np.diff(self.starts)[documents]
        starts = np.concatenate(([0], np.cumsum(counts)))
        places = np.arange(starts[-1]) + np.repeat(self.starts[documents] - starts[:-1], counts)
        return PassageRows(self.vectors[places], starts)


def coverage(a: PassageRows, b: PassageRows, rows: IntArray, cols: IntArray) -> FloatArray:
    """How well two documents cover each other, for pairs of them.

    Each passage of one document has a best cosine among the other's passages; the mean of these says how much of the
    one stands in the other, and the lesser of both directions counts: a long page covers any short one a little.

    Args:
        a: passages of the first side.
        b: of the second.
        rows: (pairs,) documents of the first side, ascending.
        cols: (pairs,) documents of the second.

    Returns:
        (pairs,) float32 in [−1, 1].
    """
    result = np.empty(len(rows), np.float32)
    if not len(rows):
        return result
    counts = np.diff(b.starts)
    documents, firsts = np.unique(rows, return_index=True)
    for document, first, last in zip(
        documents.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True
    ):
        others = cols[first:last]
        here = counts[others]
        ends = np.cumsum(here)
        places = np.arange(ends[-1]) + np.repeat(b.starts[others] - (ends - here), here)
        own = unit_rows(a.vectors[a.starts[document] : a.starts[document + 1]])
        cosines = (own @ b.vectors[places].astype(np.float32).T) * b.scales[places]
        begins = ends - here
        forward = np.maximum.reduceat(cosines, begins, axis=1).mean(axis=0)
        backward = np.add.reduceat(cosines.max(axis=0), begins) / here
        result[first:last] = np.minimum(forward, backward)
    return result
