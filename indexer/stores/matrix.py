"""Exact nearest neighbours: all vectors of one model as one matrix in memory, rows grouped by language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray
from indexer.stores.contract import NearestDocuments

_SCORES = 8_000_000
"""Maximum scores in memory: queries are taken in blocks so that queries × documents stays below it."""

_ROWS = 1_000
"""Vectors copied into the matrix at a time."""


@dataclass(frozen=True)
class VectorMatrix:
    """All vectors of one model, without the documents' texts.

    Attributes:
        doc_ids: (n,) ids; the rows of a language are contiguous.
        vectors: (n, dim) float32 unit rows.
        languages: slice of the rows of each language.
        position: row of each id.
    """

    doc_ids: Sequence[str]
    vectors: FloatArray
    languages: Mapping[str, slice]
    position: Mapping[str, int]

    @classmethod
    def build(cls, places: Sequence[tuple[str, str, int]], rows: Iterable[tuple[int, bytes]], dim: int) -> VectorMatrix:
        """Build the matrix; beside it a thousand vectors are in memory at a time.

        numpy allocates the memory of the vectors: it has huge pages, and a product over them is a third faster than
        over bytes that Python joined.

        Args:
            places: language, id and number of each vector, ordered by language.
            rows: number and bytes of each vector, in any order.
            dim: width of the vectors.
        """
        vectors = np.empty((len(places), dim), dtype=np.float32)
        position_of = {number: position for position, (_, _, number) in enumerate(places)}
        remaining = iter(rows)
        while block := list(islice(remaining, _ROWS)):
            values = np.frombuffer(b"".join(vector for _, vector in block), dtype=np.float32)
            vectors[[position_of[number] for number, _ in block]] = values.reshape(-1, dim)
        vectors.flags.writeable = False  # many threads share the matrix
        languages: dict[str, slice] = {}
        for position, (lang, _, _) in enumerate(places):
            first = languages[lang].start if lang in languages else position
            languages[lang] = slice(first, position + 1)
        doc_ids = [doc_id for _, doc_id, _ in places]
        return cls(doc_ids, vectors, languages, {doc_id: position for position, doc_id in enumerate(doc_ids)})

    def rows_of(self, doc_ids: Iterable[str]) -> BoolArray:
        """(n,) flags of the rows of these ids; unknown ids are ignored."""
        rows = np.zeros(len(self.doc_ids), dtype=np.bool_)
        rows[[self.position[doc_id] for doc_id in doc_ids if doc_id in self.position]] = True
        return rows

    def search(
        self, queries: Mapping[str, FloatArray], k: int, allowed: BoolArray | None, *, with_vectors: bool
    ) -> dict[str, list[NearestDocuments]]:
        """For each language the k rows with the largest inner product with each query, ties in row order.

        ``queries`` are (queries, dim) by language, ``allowed`` are (n,) flags of the rows to search; None: all rows.
        """
        shared = self._shared_query(queries) if allowed is None else None
        all_scores = None if shared is None else self.vectors @ shared
        candidates = {}
        for lang, vectors in queries.items():
            span = self.languages.get(lang, slice(0, 0))
            rows, documents = np.arange(span.start, span.stop), self.vectors[span]
            if allowed is not None:
                rows = rows[allowed[span]]
                documents = self.vectors[rows]
            products = _products(documents, vectors) if all_scores is None else [all_scores[span]]
            candidates[lang] = [self._best(rows, scores, k, with_vectors=with_vectors) for scores in products]
        return candidates

    def _shared_query(self, queries: Mapping[str, FloatArray]) -> FloatArray | None:
        """The query shared by at least half of all languages, for which one product serves all; otherwise None."""
        distinct = {id(vectors): vectors for vectors in queries.values()}
        if len(distinct) != 1 or len(queries) < len(self.languages) / 2:
            return None
        (vectors,) = distinct.values()
        return vectors[0] if len(vectors) == 1 else None

    def _best(self, rows: npt.NDArray[np.intp], scores: FloatArray, k: int, *, with_vectors: bool) -> NearestDocuments:
        """The k of the rows, ascending, with the largest scores."""
        best = largest(scores, k)
        doc_ids = [self.doc_ids[row] for row in rows[best].tolist()]
        return NearestDocuments(doc_ids, scores[best], self.vectors[rows[best]] if with_vectors else None)


def _products(documents: FloatArray, queries: FloatArray) -> Iterator[FloatArray]:
    """The inner products of each query with all documents, (documents,) float32."""
    block_size = max(1, _SCORES // max(1, len(documents)))
    for start in range(0, len(queries), block_size):
        block = queries[start : start + block_size]
        # a product of many rows by few columns: half of the time of few rows by many columns
        yield from (documents @ block[0])[None] if len(block) == 1 else np.ascontiguousarray((documents @ block.T).T)


def largest(scores: FloatArray, k: int) -> npt.NDArray[np.intp]:
    """Indices of the k largest scores, descending, equal scores by index."""
    if k >= len(scores):
        chosen = np.arange(len(scores))
    else:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= threshold)
        if len(chosen) > k:  # of equal scores at the last place the first by index stay
            above = scores[chosen] > threshold
            chosen = np.concatenate((chosen[above], chosen[~above][: k - int(above.sum())]))
            chosen.sort()
    return chosen[np.argsort(-scores[chosen], kind="stable")]
