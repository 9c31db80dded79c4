"""Exact nearest neighbours: all vectors of one model as one matrix in memory, rows grouped by language.

A matrix that is searched often gets an int8 copy, which says of most rows that they are not among the nearest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from itertools import accumulate, count, islice

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray
from encoders.memory import give_back_memory
from indexer.stores.contract import NearestDocuments
from indexer.stores.quantised_rows import QuantisedRows

Rows = npt.NDArray[np.intp]

_SCORES = 8_000_000
"""Maximum scores in memory: queries are taken in blocks so that queries × documents stays below it."""

_ROWS = 1_000
"""Vectors copied into the matrix at a time."""

_SEARCHES = 64
"""Searches after which an int8 copy is made: making it takes as long as fifty products."""
_SMALL = 10_000
"""Vectors below which a copy saves less than a millisecond a search."""
_TOGETHER = 8
"""Most queries for which a copy is faster: the products of more take hardly longer than those of a few."""
_SHARE = 50
"""Vectors for each hit from which a copy is faster; with more hits it leaves too many rows to compare."""
_FOLDS = 16
"""Scores of a column, of which the largest stands for the column."""


@dataclass(eq=False)
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
    _copy: QuantisedRows | None = field(default=None, init=False)
    _copying: threading.Lock = field(default_factory=threading.Lock, init=False)
    _searches: Iterator[int] = field(default_factory=partial(count, 1), init=False)

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
        spans = {lang: self.languages.get(lang, slice(0, 0)) for lang in queries}
        rows_of = {lang: np.arange(span.start, span.stop) for lang, span in spans.items()}
        if allowed is not None:
            rows_of = {lang: rows[allowed[spans[lang]]] for lang, rows in rows_of.items()}
        taken = spans if allowed is None else rows_of  # the same rows; to take a slice copies nothing
        found: dict[str, list[NearestDocuments]] = {lang: [] for lang in queries}
        if (shared := self._few_shared(queries)) is not None and (copy := self._copy_for(k * len(queries))):
            for query, (lower, width) in zip(shared, copy.bounds(shared), strict=True):
                near = {lang: rows[_near(lower[taken[lang]], width[taken[lang]], k)] for lang, rows in rows_of.items()}
                for lang, hits in self._best_of_few(near, query, k, with_vectors=with_vectors).items():
                    found[lang].append(hits)
            return found
        for lang, rows in rows_of.items():
            vectors = self.vectors[taken[lang]]
            for scores in _products(vectors, queries[lang]):
                found[lang].append(self._best(rows, scores, k, vectors if with_vectors else None))
        return found

    def _few_shared(self, queries: Mapping[str, FloatArray]) -> FloatArray | None:
        """The (queries, dim) vectors, if they are few, and at least half of all languages share them."""
        distinct = {id(vectors): vectors for vectors in queries.values()}
        if len(distinct) != 1 or len(queries) < len(self.languages) / 2:
            return None
        (vectors,) = distinct.values()
        return vectors if len(vectors) <= _TOGETHER else None

    def _copy_for(self, hits: int) -> QuantisedRows | None:
        """The int8 copy, if it is of use for so many hits of a query; made by the search that makes it worth its time.

        Other threads search without a copy meanwhile.
        """
        if len(self.vectors) < max(_SMALL, _SHARE * hits) or not _can_copy():
            return None
        if next(self._searches) > _SEARCHES and self._copying.acquire(blocking=False):
            try:
                if self._copy is None:
                    self._copy = QuantisedRows(self.vectors)
                    give_back_memory()
            finally:
                self._copying.release()
        return self._copy

    def _best_of_few(
        self, rows_of: Mapping[str, Rows], query: FloatArray, k: int, *, with_vectors: bool
    ) -> dict[str, NearestDocuments]:
        """The k best of some rows, ascending, of each language; a row's score does not depend on the other rows."""
        vectors = self.vectors.take(np.concatenate(list(rows_of.values())), axis=0)
        scores = np.einsum("ij,j->i", vectors, query)
        ends = accumulate(map(len, rows_of.values()))
        places = {lang: slice(end - len(rows), end) for (lang, rows), end in zip(rows_of.items(), ends, strict=True)}
        return {
            lang: self._best(rows, scores[places[lang]], k, vectors[places[lang]] if with_vectors else None)
            for lang, rows in rows_of.items()
        }

    def _best(self, rows: Rows, scores: FloatArray, k: int, vectors: FloatArray | None) -> NearestDocuments:
        """The k of the rows, ascending, with the largest scores; with their vectors if the rows' vectors are given."""
        best = largest(scores, k)
        doc_ids = list(map(self.doc_ids.__getitem__, rows[best].tolist()))
        return NearestDocuments(doc_ids, scores[best], None if vectors is None else vectors[best])


@cache
def _can_copy() -> bool:
    return find_spec("onnxruntime") is not None


def _near(lower: FloatArray, width: FloatArray, k: int) -> Rows:
    """The rows that may be among the k with the largest scores, by (n,) lower bounds of the scores and their width."""
    if k >= len(lower):
        return np.arange(len(lower))
    return np.flatnonzero(lower + width >= _low_threshold(lower, k))


def _low_threshold(scores: FloatArray, k: int) -> np.float32:
    """A number that k of more than k scores reach, and seldom many more: the k-th largest of the columns' largest."""
    columns = max(k, len(scores) // _FOLDS)
    of_columns = scores[: len(scores) // columns * columns].reshape(-1, columns).max(axis=0)
    threshold: np.float32 = np.partition(of_columns, columns - k)[columns - k]
    return threshold


def _products(documents: FloatArray, queries: FloatArray) -> Iterator[FloatArray]:
    """The inner products of each query with all documents, (documents,) float32."""
    block_size = max(1, _SCORES // max(1, len(documents)))
    for start in range(0, len(queries), block_size):
        block = queries[start : start + block_size]
        # a product of many rows by few columns: half of the time of few rows by many columns
        yield from (documents @ block[0])[None] if len(block) == 1 else np.ascontiguousarray((documents @ block.T).T)


def largest(scores: FloatArray, k: int) -> Rows:
    """Indices of the k largest scores, descending, equal scores by index."""
    if k >= len(scores):
        chosen = np.arange(len(scores))
    else:
        chosen = np.flatnonzero(scores >= _low_threshold(scores, k))
        threshold = np.partition(scores[chosen], len(chosen) - k)[len(chosen) - k]
        chosen = chosen[scores[chosen] >= threshold]
        if len(chosen) > k:  # of equal scores at the last place the first by index stay
            above = scores[chosen] > threshold
            chosen = np.concatenate((chosen[above], chosen[~above][: k - int(above.sum())]))
            chosen.sort()
    return chosen[np.argsort(-scores[chosen], kind="stable")]
