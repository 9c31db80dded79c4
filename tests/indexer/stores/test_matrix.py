"""What the embedded store holds in memory, and the nearest rows that it finds there with an int8 copy and without."""

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from encoders.document import BoolArray, Document, FloatArray, Passages, unit_rows
from indexer.stores import matrix as matrices
from indexer.stores.contract import StoredDocument
from indexer.stores.embedded import EmbeddedStore
from indexer.stores.matrix import VectorMatrix
from indexer.stores.quantised_rows import QuantisedRows

MODEL, DIM, COUNT = "model-a", 384, 8_000
LANGS = ("de", "en", "ja")


class _Copies:
    """Counts the searches that int8 copies serve, and the copies that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = self.served = 0
        self._bounds, self._make = QuantisedRows.bounds, QuantisedRows.__init__
        monkeypatch.setattr(QuantisedRows, "bounds", self._counting(self._bounds, "served"))
        monkeypatch.setattr(QuantisedRows, "__init__", self._counting(self._make, "made"))

    def _counting(self, function: Callable[..., object], name: str) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            setattr(self, name, getattr(self, name) + 1)
            return function(*arguments)

        return counted


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> _Copies:
    return _Copies(monkeypatch)


@pytest.fixture(scope="module")
def matrix() -> VectorMatrix:
    """Vectors as encoders make them, in three languages; each tenth vector is there twice."""
    return _matrix(12_000)


def _matrix(count: int) -> VectorMatrix:
    chance = np.random.default_rng(1)
    rows = chance.standard_normal(DIM) + 0.5 * chance.standard_normal((count, DIM))
    rows[::10] = rows[5::10]
    places = sorted((LANGS[number % 3], f"{number}", number) for number in range(count))
    vectors = unit_rows(rows.astype(np.float32))
    return VectorMatrix.build(places, ((number, vectors[number].tobytes()) for number in range(count)), DIM)


def _nearest(
    matrix: VectorMatrix, queries: FloatArray, k: int, allowed: BoolArray | None = None
) -> list[list[list[str]]]:
    """Ids by language and query."""
    found = matrix.search(dict.fromkeys(LANGS, queries), k, allowed, with_vectors=True)
    for hits in (hits for of_language in found.values() for hits in of_language):
        rows = [matrix.position[doc_id] for doc_id in hits.doc_ids]
        assert hits.vectors is not None
        assert hits.vectors.tobytes() == matrix.vectors[rows].tobytes()
    return [[list(hits.doc_ids) for hits in found[lang]] for lang in LANGS]


def _by_sorting(matrix: VectorMatrix, queries: FloatArray, k: int, allowed: BoolArray | None) -> list[list[list[str]]]:
    """The same by double precision; equal vectors in the order of their rows."""
    scores = queries.astype(np.float64) @ matrix.vectors.astype(np.float64).T
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    spans = [matrix.languages[lang] for lang in LANGS]
    return [
        [
            [
                matrix.doc_ids[span.start + row]
                for row in np.argsort(-np.round(of_query[span], 12), kind="stable")[:k]
                if np.isfinite(of_query[span.start + row])
            ]
            for of_query in scores
        ]
        for span in spans
    ]


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("filtered", [False, True])
def test_an_int8_copy_finds_what_sorting_finds(
    matrix: VectorMatrix, copies: _Copies, monkeypatch: pytest.MonkeyPatch, count: int, *, filtered: bool
) -> None:
    monkeypatch.setattr(matrices, "_SEARCHES", 0)
    chance = np.random.default_rng(2)
    allowed = chance.random(len(matrix.doc_ids)) < 0.3 if filtered else None
    queries = unit_rows(matrix.vectors[:count] + 0.02 * chance.standard_normal((count, DIM)).astype(np.float32))
    assert _nearest(matrix, queries, 50, allowed) == _by_sorting(matrix, queries, 50, allowed)
    assert copies.served == 1


def test_one_copy_is_made_once_a_matrix_is_searched_often(copies: _Copies) -> None:
    matrix = _matrix(10_000)
    queries = [matrix.vectors[row : row + 1] for row in range(66)]
    before = [_nearest(matrix, query, 20) for query in queries[:64]]
    assert copies.made == 0
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda query: _nearest(matrix, query, 20), queries[64:] * 10))
    assert copies.made == 1
    copies.served = 0
    assert [_nearest(matrix, query, 20) for query in queries[:64]] == before
    assert copies.served == 64


def test_a_copy_is_left_aside_where_products_are_as_fast(
    matrix: VectorMatrix, copies: _Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "_SEARCHES", 0)
    _nearest(matrix, matrix.vectors[:9], 10)
    _nearest(matrix, matrix.vectors[:1], 1_000)
    small = _matrix(300)
    _nearest(small, small.vectors[:1], 1)
    matrix.search({lang: matrix.vectors[row : row + 1] for row, lang in enumerate(LANGS)}, 10, None, with_vectors=False)
    assert copies.served == 0


def test_reading_the_vectors_does_not_hold_them_twice(tmp_path: Path) -> None:
    vectors = unit_rows(np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32))
    passages = Passages(np.ones((1, DIM), np.int8), np.array([[0, 1]], np.int32))
    with closing(EmbeddedStore(tmp_path, "c")) as store:
        store.create(MODEL, DIM)
        documents = [Document(f"{number}", ("de", "en", "ja")[number % 3], "text") for number in range(COUNT)]
        store.put(MODEL, [StoredDocument(*pair, passages) for pair in zip(documents, vectors, strict=True)])
        tracemalloc.start()
        try:
            read = store.vectors(MODEL, ["7", "0"])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1.75 * vectors.nbytes
        assert read.tobytes() == vectors[[7, 0]].tobytes()
