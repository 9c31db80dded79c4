"""When the embedded store keeps words, and that nothing it goes through leaves them wrong."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, Passages
from encoders.errors import StoreError
from indexer.collection.store_location import StoreLocation
from indexer.stores import word_tables
from indexer.stores.contract import LexicalQuery, StoredDocument, VectorStore
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
    assert found(store, "river") == ["a"]
    assert "lexical_en" in tables(store)
    with closing(sqlite3.connect(store.path)) as connection:
        before = connection.execute("SELECT * FROM lexical_en_data").fetchall()
        changed = Document("a", "en", "river", fields={"label": "news"}, revision=3)
        store.put(MODEL, [replace(item("a", "river"), document=changed)])
        assert connection.execute("SELECT * FROM lexical_en_data").fetchall() == before


def test_a_file_of_before_there_were_words_gets_them_when_they_are_looked_for(store: EmbeddedStore) -> None:
    store.put(MODEL, [item("a", "river")])
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    for _ in range(2):
        with closing(StoreLocation(store.path.parent.as_uri(), "c").open()) as after:
            assert found(after, "rivers") == ["a"]


def test_a_build_that_was_killed_half_way_goes_on_and_loses_no_write_of_the_meantime(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_put_that_fails_leaves_documents_and_words_as_they_were(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(MODEL, [item("a", "river"), item("b", "lake")])
    assert found(store, "river") == ["a"]

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("indexer.stores.embedded_tables.count_change", fail)
        with pytest.raises(StoreError, match=r"full.*see that the disk has room"):
            store.put(MODEL, [item("a", "ocean"), item("c", "ocean")])
    assert (found(store, "ocean"), found(store, "river")) == ([], ["a"])
    assert store.get(["a"])[0].text == "river"
