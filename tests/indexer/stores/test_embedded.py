"""What the embedded store keeps: vectors, with an int8 copy and without, words, passages and answers of filters."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.document import BoolArray, Document, FloatArray, Passages, Rows, int8_rows, unit_rows
from encoders.errors import StoreError
from indexer.collection.store_location import StoreLocation
from indexer.stores import embedded, embedded_tables, quantised_rows, word_tables
from indexer.stores import matrix as matrices
from indexer.stores.contract import Filters, LexicalQuery, NearestDocuments, StoredDocument, VectorQuery, VectorStore
from indexer.stores.embedded import EmbeddedStore
from indexer.stores.matrix import VectorMatrix
from indexer.stores.quantised_rows import QuantisedRows, QueryDigits, RowBlock, row_blocks
from tests.indexer.readers.reading import memory_below

MODEL, DIM, COUNT = "model-a", 384, 8_000
LANGS = ("de", "en", "ja")
Hits = dict[str, list[NearestDocuments]]
_SEARCHES = matrices._SEARCHES


class _Copies:
    """The int8 copies that are made, the queries that they serve, and the rows that are compared for these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = self.served = self.compared = 0
        self.may_be_made, self.begun = threading.Event(), threading.Event()
        self.may_be_made.set()
        self.error: Exception | None = None
        make, bounds, near = QuantisedRows.__init__, QuantisedRows.bounds, matrices._near

        def counted_make(copy: QuantisedRows, vectors: FloatArray, blocks: Sequence[RowBlock]) -> None:
            self.begun.set()
            assert self.may_be_made.wait(60)
            if self.error:
                raise self.error
            make(copy, vectors, blocks)
            self.made += 1

        def counted_bounds(copy: QuantisedRows, queries: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
            self.served += len(next(iter(queries.values())))
            return bounds(copy, queries)

        def counted_near(*arguments: Any) -> Rows:
            rows = near(*arguments)
            self.compared += len(rows)
            return rows

        monkeypatch.setattr(QuantisedRows, "__init__", counted_make)
        monkeypatch.setattr(QuantisedRows, "bounds", counted_bounds)
        monkeypatch.setattr(matrices, "_near", counted_near)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> _Copies:
    monkeypatch.setattr(matrices, "_SEARCHES", 0)
    return _Copies(monkeypatch)


@pytest.fixture(scope="module")
def vectors() -> FloatArray:
    """Vectors as encoders make them; each tenth vector is there twice."""
    rows = _like_an_encoder(np.random.default_rng(1), 12_000)
    rows[::10] = rows[5::10]
    return rows


def _matrix(vectors: FloatArray, langs: Sequence[str] = LANGS) -> VectorMatrix:
    """The vectors, in languages of the same size."""
    places = sorted((langs[number % len(langs)], f"{number}", number) for number in range(len(vectors)))
    return VectorMatrix.build(places, ((number, vector.tobytes()) for number, vector in enumerate(vectors)), DIM)


def _search(matrix: VectorMatrix, queries: FloatArray, k: int, allowed: BoolArray | None = None) -> Hits:
    return matrix.search(dict.fromkeys(LANGS, queries), k, allowed, with_vectors=True)


def _require_nearest(
    matrix: VectorMatrix, queries: FloatArray | Mapping[str, FloatArray], k: int, hits: Hits, allowed: BoolArray
) -> None:
    """Require the k nearest by double precision, best first, equal vectors in the order of their rows."""
    for lang, of_queries in hits.items():
        of_language = queries[lang] if isinstance(queries, Mapping) else queries
        exact = of_language.astype(np.float64) @ matrix.vectors.astype(np.float64).T
        span = matrix.languages[lang]
        rows_of_language = np.flatnonzero(allowed[span]) + span.start
        for scores, of_query in zip(exact, of_queries, strict=True):
            rows = [matrix.position[doc_id] for doc_id in of_query.doc_ids]
            assert len(set(rows)) == min(k, len(rows_of_language))
            assert np.isin(rows, rows_of_language).all()
            assert scores[rows] == pytest.approx(np.sort(scores[rows_of_language])[::-1][:k], abs=1e-6)
            assert of_query.scores == pytest.approx(scores[rows], abs=1e-6)
            assert of_query.vectors is not None
            assert of_query.vectors.tobytes() == matrix.vectors[rows].tobytes()
            for row, following in pairwise(rows):
                if matrix.vectors[row].tobytes() == matrix.vectors[following].tobytes():
                    assert row < following


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("noise", [0.02, 1.0])
def test_a_copy_finds_the_nearest(vectors: FloatArray, copies: _Copies, count: int, share: float, noise: float) -> None:
    matrix, chance = _matrix(vectors), np.random.default_rng(2)
    allowed = chance.random(len(vectors)) < share
    queries = unit_rows(matrix.vectors[:count] + noise * chance.standard_normal((count, DIM)).astype(np.float32))
    hits = _search(matrix, queries, 30, None if share == 1 else allowed)
    _require_nearest(matrix, queries, 30, hits, allowed)
    assert copies.served == count
    assert copies.compared < 0.1 * count * allowed.sum()


@pytest.mark.parametrize("enough_rows", [500, 4_000])
@pytest.mark.parametrize("share", [1.0, 0.9])
def test_a_copy_finds_the_nearest_to_each_language_s_own_vectors(
    vectors: FloatArray, copies: _Copies, monkeypatch: pytest.MonkeyPatch, enough_rows: int, share: float
) -> None:
    """Seven languages share blocks, and two of them ask with the same vectors; with small blocks each has several."""
    monkeypatch.setattr(quantised_rows, "_ENOUGH_ROWS", enough_rows)
    monkeypatch.setattr(quantised_rows, "_MOST_ROWS", 5 * enough_rows // 2)
    matrix, langs = _matrix(vectors, "abcdefg"), "bcdefg"
    allowed = np.random.default_rng(2).random(len(vectors)) < share
    queries = {lang: matrix.vectors[row : row + 2] for row, lang in enumerate(langs)}
    queries["c"] = queries["b"]
    queries["zz"] = matrix.vectors[:2]
    hits = matrix.search(queries, 20, None if share == 1 else allowed, with_vectors=True)
    assert [of_query.doc_ids for of_query in hits.pop("zz")] == [[], []]
    _require_nearest(matrix, queries, 20, hits, allowed)
    assert copies.made == 1
    assert copies.compared < 0.2 * 2 * len(vectors)


def test_a_copy_that_rules_out_nothing_finds_the_nearest_and_a_small_language_all_of_its_documents(
    vectors: FloatArray, copies: _Copies
) -> None:
    matrix, allowed = _matrix(vectors), np.ones(len(vectors), np.bool_)
    hits = _search(matrix, np.zeros((1, DIM), np.float32), 10)
    assert (copies.compared, copies.served) == (len(vectors), 1)
    first = [matrix.doc_ids[matrix.languages[lang].start :][:10] for lang in LANGS]
    assert [hits[lang][0].doc_ids for lang in LANGS] == first
    allowed[matrix.languages["en"]] = False
    allowed[matrix.languages["en"].start + 3] = True
    allowed[matrix.languages["ja"]] = False
    hits = matrix.search(dict.fromkeys((*LANGS, "zz"), matrix.vectors[:2]), 20, allowed, with_vectors=False)
    assert copies.served == 3
    counts = {lang: [len(of_query.doc_ids) for of_query in of_lang] for lang, of_lang in hits.items()}
    assert counts == {"de": [20, 20], "en": [1, 1], "ja": [0, 0], "zz": [0, 0]}
    assert hits["de"][0].vectors is None


def test_one_copy_is_made_once_a_matrix_is_searched_often_and_others_search_meanwhile(
    vectors: FloatArray, copies: _Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "_SEARCHES", _SEARCHES)
    matrix, allowed = _matrix(vectors), np.ones(len(vectors), np.bool_)

    def search(row: int) -> Hits:
        return _search(matrix, matrix.vectors[row : row + 1], 20)

    for row in range(64):
        search(row)
    assert not copies.begun.is_set()
    copies.may_be_made.clear()
    with ThreadPoolExecutor(4) as threads:
        waiting = threads.submit(search, 0)
        assert copies.begun.wait(60)
        meanwhile = threads.submit(search, 1).result(60)
        assert copies.served == 0
        assert not waiting.done()
        copies.may_be_made.set()
        _require_nearest(matrix, matrix.vectors[:1], 20, waiting.result(60), allowed)
        _require_nearest(matrix, matrix.vectors[1:2], 20, meanwhile, allowed)
        assert copies.served == 1
        list(threads.map(search, range(40)))
    assert (copies.served, copies.made) == (41, 1)


@pytest.mark.parametrize("error", [MemoryError("too little"), ImportError("no ONNX Runtime"), Exception("failed")])
def test_searches_go_on_without_a_copy_that_cannot_be_made(
    vectors: FloatArray, copies: _Copies, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    copies.error = error
    matrix = _matrix(vectors)
    with caplog.at_level("WARNING", "dragoman.stores"):
        hits = [_search(matrix, matrix.vectors[:1], 10) for _ in range(3)]
    _require_nearest(matrix, matrix.vectors[:1], 10, hits[-1], np.ones(len(vectors), np.bool_))
    assert caplog.messages == [f"searches compare all 12000 vectors, without an int8 copy: {error}"]


def test_no_copy_is_made_of_few_vectors(vectors: FloatArray, copies: _Copies) -> None:
    _search(_matrix(vectors[:9_999]), vectors[:1], 10)
    assert not copies.begun.is_set()
    _search(_matrix(vectors), vectors[:1], 133)
    assert copies.made == 1


def test_reading_the_vectors_does_not_hold_them_twice(tmp_path: Path) -> None:
    vectors = unit_rows(np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32))
    passages = Passages(np.ones((1, DIM), np.int8), np.array([[0, 1]], np.int32))
    with closing(EmbeddedStore(tmp_path, "c")) as store:
        store.create(MODEL, DIM)
        documents = [Document(f"{number}", LANGS[number % 3], "text") for number in range(COUNT)]
        store.put(MODEL, [StoredDocument(*pair, passages) for pair in zip(documents, vectors, strict=True)])
        with memory_below(int(1.75 * vectors.nbytes)):
            read = store.vectors(MODEL, ["7", "0"])
        assert read.tobytes() == vectors[[7, 0]].tobytes()


def _like_an_encoder(chance: np.random.Generator, count: int) -> FloatArray:
    """Unit rows with large cosines, as sentence encoders make them."""
    common = chance.standard_normal(DIM)
    return unit_rows((common + 0.5 * chance.standard_normal((count, DIM))).astype(np.float32))


def _require_bounds(vectors: FloatArray, queries: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    exact, span = queries.astype(np.float64) @ vectors.astype(np.float64).T, slice(0, len(vectors))
    bounds = list(zip(*QuantisedRows(vectors, row_blocks({"en": span})).bounds({"en": queries}), strict=True))
    assert len(bounds) == len(queries)
    for products, (lower, upper) in zip(exact, bounds, strict=True):
        assert (lower <= products).all()
        assert (products <= upper).all()
    return bounds


@pytest.mark.parametrize("count", [1, 20_003])
@pytest.mark.parametrize("length", [1.0, 300.0])
def test_inner_products_are_within_their_bounds(count: int, length: float) -> None:
    chance = np.random.default_rng(0)
    vectors = _like_an_encoder(chance, count) * np.float32(length)
    queries = np.concatenate((_like_an_encoder(chance, 3), vectors[:1], np.zeros((1, DIM), np.float32)))
    queries[1] *= np.float32(50)
    lower, upper = _require_bounds(vectors, queries)[0]
    assert lower.dtype == upper.dtype == np.float32
    assert (upper - lower).max() < 0.015 * length


def test_bounds_hold_for_what_quantising_lost_of_vectors_or_queries_and_for_the_largest_numbers() -> None:
    vectors, queries = (_like_an_encoder(np.random.default_rng(0), count) for count in (50, 4))
    rest = vectors - vectors.mean(axis=0)
    residuals = unit_rows(rest - int8_rows(rest) * (np.abs(rest).max(axis=1, keepdims=True) / np.float32(127)))
    bounds, rows = _require_bounds(vectors, np.concatenate((residuals, -residuals))), np.arange(50)
    lower, upper = (np.stack(of_queries)[rows, rows] for of_queries in zip(*bounds[:50], strict=True))
    products = (residuals.astype(np.float64) * vectors).sum(axis=1)
    assert ((upper - products) < 0.05 * (upper - lower)).all()  # the bound is reached, so a smaller one would not hold
    left_out = unit_rows(QueryDigits.of(queries[None, :1])[0].residuals)[0]
    along = np.rint(left_out * 127 / np.abs(left_out).max())  # numbers that int8 holds
    _require_bounds(np.stack((along, -along)).astype(np.float32), queries[:1])
    ones = np.concatenate((np.ones((2, DIM), np.float32), -np.ones((2, DIM), np.float32)))
    for (below, above), sign in zip(_require_bounds(ones, ones[[0, 2]]), (1, -1), strict=True):
        assert (below + above) / 2 == pytest.approx(sign * np.array([DIM, DIM, -DIM, -DIM]), abs=0.01 * DIM)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(tmp_path, "c")
    opened.create(MODEL, 2)
    yield opened
    opened.close()


def item(doc_id: str, text: str, lang: str = "en") -> StoredDocument:
    passages = Passages(np.ones((1, 2), np.int8), np.array([[0, 1]], np.int32))
    return StoredDocument(Document(doc_id, lang, text), np.array([1, 0], np.float32), passages)


def tables(store: EmbeddedStore) -> set[str]:
    with closing(sqlite3.connect(store.path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'lexical%'")}


def found(store: VectorStore, text: str) -> list[str]:
    return sorted(doc_id for doc_id, _ in store.lexical(LexicalQuery([text], ["en"], 99))[0]["en"])


def test_a_store_keeps_words_when_somebody_looks_for_them_until_a_text_changes(store: EmbeddedStore) -> None:
    store.put(MODEL, [item("a", "river")])
    assert tables(store) == set()
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)  # of before there were words
        with closing(StoreLocation(store.path.parent.as_uri(), "c").open()) as other:
            assert found(other, "rivers") == found(store, "river") == ["a"]
        assert "lexical_en" in tables(store)
        before = connection.execute("SELECT * FROM lexical_en_data").fetchall()
        changed = Document("a", "en", "river", fields={"label": "news"}, revision=3)
        store.put(MODEL, [replace(item("a", "river"), document=changed)])
        assert connection.execute("SELECT * FROM lexical_en_data").fetchall() == before


def test_a_killed_build_goes_on_and_loses_no_write(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_tables, "_BATCH", 2)
    store.put(MODEL, [item(f"d{at}", f"stone{at}") for at in range(7)])
    with store._file.writing() as connection:
        word_tables.index_batch(connection)
    store.close()
    with closing(EmbeddedStore(store.path.parent, "c")) as other:
        other.put(MODEL, [item("d0", "opal"), item("d5", "pearl"), item("d7", "quartz")])
        other.delete(["d1", "d6"])
        everything = "opal pearl quartz " + " ".join(f"stone{at}" for at in range(7))
        assert found(other, everything) == ["d0", "d2", "d3", "d4", "d5", "d7"]
        assert found(other, "stone0 stone1 stone5 stone6") == []


def test_a_put_that_fails_changes_no_documents_and_words(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(MODEL, [item("a", "river"), item("b", "lake")])
    assert found(store, "river") == ["a"]

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("indexer.stores.embedded_tables.count_change", fail)
        with pytest.raises(StoreError, match=r"full.*see that the disk has room"):
            store.put(MODEL, [item("a", "ocean"), item("c", "ocean")])
    assert (found(store, "ocean"), found(store, "river"), store.get(["a"])[0].text) == ([], ["a"], "river")


def test_a_full_cache_of_passages_drops_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = item("a", "text").passages.vectors.nbytes + embedded._BESIDE_VECTORS
    monkeypatch.setattr(embedded, "_PASSAGES_BYTES", 3 * each)
    with closing(EmbeddedStore(tmp_path, "cached")) as store:
        store.create(MODEL, 2)
        store.put(MODEL, [item(name, "text") for name in "abcdefg"])
        cache = store._passages
        for doc_ids, cached in ("ab", "ab"), ("abc", "abc"), ("de", "cde"), ("abfg", "cde"), ("e", "cde"):
            assert len(store.passages(MODEL, list(doc_ids))) == len(doc_ids)
            assert sorted(doc_id for _, doc_id in cache._values) == list(cached)
        assert cache._size == 3 * each
    assert not cache._values


def test_filters_are_evaluated_once_until_the_file_changes(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated, evaluate, news = list[Filters](), embedded_tables.matching, {"label": "news"}

    def matching(connection: sqlite3.Connection, filters: Filters) -> dict[int, str]:
        evaluated.append(filters)
        return evaluate(connection, filters)

    def passing() -> list[object]:
        (nearest,) = store.search(VectorQuery(MODEL, {"en": np.ones((1, 2), np.float32)}, 5, news))["en"]
        (hits,) = store.lexical(LexicalQuery(["flood"], ["en"], 5, news))
        return [sorted(nearest.doc_ids), sorted(dict(hits["en"])), store.count_passing(["en"], news)]

    monkeypatch.setattr(embedded_tables, "matching", matching)
    with closing(EmbeddedStore(tmp_path, "c")) as second:
        for number, writer in enumerate((store, second)):
            document = Document("ab"[number], "en", "flood", fields=news)
            writer.put(MODEL, [replace(item("a", "flood"), document=document)])
            assert (passing(), len(evaluated)) == ([list("ab"[: number + 1])] * 2 + [number + 1], number + 1)
    for number in range(40):
        store.count_passing(["en"], {"label": str(number)})
        assert len(store._matches._values) <= 16
