"""When the embedded store keeps words, passages and filters' answers, and that nothing leaves them wrong."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.document import Document, Passages
from encoders.errors import StoreError
from indexer.collection.store_location import StoreLocation
from indexer.stores import embedded, embedded_tables, word_tables
from indexer.stores.contract import Filters, LexicalQuery, StoredDocument, VectorQuery, VectorStore
from indexer.stores.embedded import EmbeddedStore

MODEL = "model-a"


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


def test_the_cache_of_passages_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    each = item("a", "text").passages.vectors.nbytes + embedded._BESIDE_VECTORS
    monkeypatch.setattr(embedded, "_PASSAGES_BYTES", 3 * each)
    with closing(EmbeddedStore(tmp_path, "cached")) as store:
        store.create(MODEL, 2)
        store.put(MODEL, [item(name, "text") for name in "abcdefg"])
        cache = store._passages
        for doc_ids, cached in ("ab", "ab"), ("abc", "abc"), ("de", "de"), ("abcdefg", "de"), ("e", "de"):
            assert len(store.passages(MODEL, list(doc_ids))) == len(doc_ids)
            assert sorted(doc_id for _, doc_id in cache._values) == list(cached)
        assert cache._size == 2 * each
    assert not cache._values


def test_filters_are_evaluated_once_until_the_file_changes(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated, evaluate, news = list[Filters](), embedded_tables.matching, {"label": "news"}

    def matching(connection: sa.Connection, filters: Filters) -> dict[int, str]:
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
