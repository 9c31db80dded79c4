"""Exact nearest neighbours: one matrix of a model's vectors, by language; an int8 copy rules out most rows."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from encoders.document import BoolArray, FloatArray, IntArray, Rows
from encoders.machine.freed_memory import give_back_memory
from encoders.top_scores import largest, low_threshold
from indexer.stores.contract import NearestDocuments
from indexer.stores.quantised_rows import QuantisedRows, RowBlock, compared_rows, row_blocks

_SCORES = 8_000_000
"""Maximum scores in memory: queries are taken in blocks so that queries × documents stays below it."""

_ROWS = 1_000
"""Vectors copied into the matrix at a time."""

_SEARCHES = 64
"""Searches of all vectors before a copy is made, which takes as long as thirty to seventy of them."""
_MIN_VECTORS = 10_000
"""Compared vectors below which a copy would save less than a millisecond a search."""
_MAX_QUERIES = 8
"""Queries of a search that a copy serves: ranking eight together takes 6.7 ms each with it, 8.0 without."""
_VECTORS_FOR_A_HIT = 30
"""With fewer vectors for each hit, a copy leaves too many rows to compare."""
_SEARCHED_SHARE = 1 / 3
"""Minimum searched share of a copy's compared vectors; the others are filtered out, or another language's."""

_logger = logging.getLogger("dragoman.stores")


@dataclass(eq=False)
class VectorMatrix:
    """All vectors of one model, without the documents' texts."""

    doc_ids: Sequence[str]  # (n,) ids; the rows of a language are contiguous
    vectors: FloatArray  # (n, dim) float32 unit rows
    languages: Mapping[str, slice]  # slice of the rows of each language
    position: Mapping[str, int]  # row of each id
    numbers: IntArray  # (n,) number of each document's row in the store's file
    _copy: QuantisedRows | None = field(default=None, init=False, repr=False)
    _first_try: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _compared_count: int = field(default=0, init=False, repr=False)

    @classmethod
    def build(
        cls, places: Sequence[tuple[str, str, int]], rows: Iterable[tuple[int, bytes]], dim: int
    ) -> "VectorMatrix":
        """Build the matrix; beside it a thousand vectors are in memory at a time.

        ``places`` are language, id and number of each vector, ordered by language; ``rows`` number and bytes, in any
        order. numpy allocates the memory in huge pages: products are a third faster than over bytes that Python joined.
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
        numbers = np.array([number for _, _, number in places], dtype=np.int64)
        return cls(doc_ids, vectors, languages, {doc_id: position for position, doc_id in enumerate(doc_ids)}, numbers)

    def ids_by_number(self, doc_ids: Iterable[str]) -> dict[int, str]:
        """Ids by their numbers; unknown ids are left out."""
        known = [doc_id for doc_id in doc_ids if doc_id in self.position]
        numbers = self.numbers[[self.position[doc_id] for doc_id in known]]
        return dict(zip(numbers.tolist(), known, strict=True))

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
        searched_rows = {lang: np.arange(span.start, span.stop) for lang, span in spans.items()}
        if allowed is not None:
            searched_rows = {lang: rows[allowed[spans[lang]]] for lang, rows in searched_rows.items()}
        selectors = spans if allowed is None else searched_rows  # the same rows; a slice copies no vectors
        hits: dict[str, list[NearestDocuments]] = {lang: [] for lang in queries}
        if copy := self._copy_for(queries, k, searched_rows):
            lower, upper = copy.bounds(queries)
            for lang, rows in searched_rows.items():
                for number, query in enumerate(queries[lang]):
                    near_rows = rows[_near(lower[number, selectors[lang]], upper[number, selectors[lang]], k)]
                    vectors = self.vectors[near_rows]
                    scores = np.einsum("ij,j->i", vectors, query)
                    hits[lang].append(self._best(near_rows, scores, k, vectors if with_vectors else None))
            return hits
        for lang, rows in searched_rows.items():
            vectors = self.vectors[selectors[lang]]
            hits[lang] += [
                self._best(rows, scores, k, vectors if with_vectors else None)
                for scores in _products(vectors, queries[lang])
            ]
        return hits

    @cached_property
    def _blocks(self) -> list[RowBlock]:
        return row_blocks(self.languages)

    def _copy_for(
        self, queries: Mapping[str, FloatArray], k: int, searched_rows: Mapping[str, Rows]
    ) -> QuantisedRows | None:
        """The int8 copy, if a search is faster by it; one thread tries once to make it, others search without it."""
        query_count = len(next(iter(queries.values()), ()))
        searched_count = sum(map(len, searched_rows.values()))
        compared_count = compared_rows(self._blocks, queries)
        if (
            not 0 < query_count <= _MAX_QUERIES
            or compared_count < _MIN_VECTORS
            or searched_count < max(_SEARCHED_SHARE * compared_count, _VECTORS_FOR_A_HIT * k * len(searched_rows))
        ):
            return None
        self._compared_count += compared_count
        if self._compared_count > _SEARCHES * len(self.vectors):
            self.make_copy()
        return self._copy

    def make_copy(self) -> None:
        """Try to make the int8 copy of ten thousand vectors or more, unless a thread has tried before."""
        if self._copy is None and len(self.vectors) >= _MIN_VECTORS and self._first_try.acquire(blocking=False):
            try:
                self._copy = QuantisedRows(self.vectors, self._blocks)
            except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors share no base, and the products remain
                _logger.warning("searches compare all %d vectors, without an int8 copy: %s", len(self.vectors), error)
            give_back_memory()

    def _best(self, rows: Rows, scores: FloatArray, k: int, vectors: FloatArray | None) -> NearestDocuments:
        """The k rows, of ascending rows, with the largest scores; with their vectors if all rows' vectors are given."""
        best = largest(scores, k)
        doc_ids = list(map(self.doc_ids.__getitem__, rows[best].tolist()))
        return NearestDocuments(doc_ids, scores[best], None if vectors is None else vectors[best])


def _near(lower: FloatArray, upper: FloatArray, k: int) -> Rows:
    """The rows that may be among the k with the largest scores, by (n,) bounds of the scores."""
    if k >= len(lower):
        return np.arange(len(lower))
    return np.flatnonzero(upper >= low_threshold(lower, k))


def _products(documents: FloatArray, queries: FloatArray) -> Iterator[FloatArray]:
    """The inner products of each query with all documents, (documents,) float32."""
    block_size = max(1, _SCORES // max(1, len(documents)))
    for start in range(0, len(queries), block_size):
        block = queries[start : start + block_size]
        # a product of many rows by few columns: half of the time of few rows by many columns
        yield from (documents @ block[0])[None] if len(block) == 1 else np.ascontiguousarray((documents @ block.T).T)
