"""An earlier version's index, with one field of vectors for all languages, is searched as it is, and moved."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.ledger.database import read_database_id
from indexer.stores.clustered import mapped_fields
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import LexicalQuery, StoredDocument, VectorQuery
from query.migration.store_layout import move_vectors
from trials.fake_encoder import FakeEncoder

LANGS = {"de": 4, "en": 3, "und": 2}


@pytest.fixture
def on_server(elastic_url: str, settings: Settings) -> Settings:
    return replace(settings, store=elastic_url)


@pytest.fixture
def old(on_server: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[ElasticStore]:
    collections.register(engine, "app", on_server, "fake", FakeEncoder().spec)
    with monkeypatch.context() as patch:
        patch.setattr(mapped_fields, "has_own_field", lambda _: False)  # as the earlier version was
        store = opened(engine, on_server)
        store.create(FakeEncoder().spec.model, 8)
        store.put(FakeEncoder().spec.model, documents("old", LANGS))
        store.publish()
    with closing(store):
        yield store


def opened(engine: sa.Engine, settings: Settings) -> Any:
    return collections.require(engine, "app").open_store(settings, make=True, database_id=read_database_id(engine))


def documents(prefix: str, langs: dict[str, int]) -> list[StoredDocument]:
    listed = [
        Document(f"{prefix}-{lang}-{number}", lang, f"{prefix} text {number}", fields={"n": number}, revision=number)
        for lang, count in langs.items()
        for number in range(count)
    ]
    encoded = FakeEncoder().encode_documents(listed)
    return [StoredDocument.of(document, encoded, row) for row, document in enumerate(listed)]


def hits(store: ElasticStore) -> dict[str, list[str]]:
    asked = np.ones((1, 8), np.float32)
    found = store.search(VectorQuery(FakeEncoder().spec.model, dict.fromkeys([*LANGS, "fr"], asked), 10))
    return {lang: list(of_lang[0].doc_ids) for lang, of_lang in found.items()}


def test_an_earlier_index_is_read_and_moved_without_encoding(
    old: ElasticStore, on_server: Settings, engine: sa.Engine
) -> None:
    model = FakeEncoder().spec.model
    with closing(opened(engine, on_server)) as store:
        assert store.shares_fields(model)
        store.put(model, documents("new", {"de": 1, "fr": 2}))  # a language of before stays in the shared field
        before, fields = hits(store), store._mapped.of(model)
        assert list(fields.of_languages) == ["fr"]
        assert {lang: len(ids) for lang, ids in before.items()} == {"de": 5, "en": 3, "und": 2, "fr": 2}
        kept = [item for page in store.scan(model) for item in page]
    assert move_vectors("app", on_server, Console(quiet=True)) == 12
    with closing(opened(engine, on_server)) as store:
        assert (store.index != old.index, store.shares_fields(model)) == (True, False)
        assert sorted(store._mapped.of(model).of_languages) == ["de", "en", "fr"]
        assert hits(store) == before
        moved = [item for page in store.scan(model) for item in page]
        assert [item.document for item in moved] == [item.document for item in kept]
        assert [item.vector.tobytes() for item in moved] == [item.vector.tobytes() for item in kept]
        assert len(store.lexical(LexicalQuery(["text"], ["de"], 10, models=[model]))[0]["de"]) == 5
    assert move_vectors("app", on_server, Console(quiet=True)) == 0
    assert generations.roll_back(engine, "app", on_server).number == 1


def test_a_move_that_breaks_off_goes_on(
    old: ElasticStore, on_server: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ElasticStore, "publish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move_vectors("app", on_server, Console(quiet=True))
    assert collections.require(engine, "app").generation == 1
    old.delete(["old-de-0"])
    assert move_vectors("app", on_server, Console(quiet=True)) == 8
    with closing(opened(engine, on_server)) as store:
        assert sorted(store.ids()) == sorted(old.ids())


def test_a_file_has_nothing_to_move(settings: Settings, engine: sa.Engine) -> None:
    collections.register(engine, "app", settings, "fake", FakeEncoder().spec)
    opened(engine, settings).close()
    assert move_vectors("app", settings, Console(quiet=True)) == 0
    with pytest.raises(BadInput, match="no collection"):
        move_vectors("none", settings, Console(quiet=True))
