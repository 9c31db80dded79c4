"""``/api/ready``: red for what somebody must see to, and for that alone."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
import sqlalchemy as sa

from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.cli import run
from query.ranking.query_encoder import open_query_encoder
from query.service import collection_watch
from query.service.collection_watch import CollectionWatch
from query.service.service_options import ServiceOptions
from tests.conftest import Log, Patch, until
from tests.query.conftest import copied
from trials import DEMO
from trials.documents import write_records
from trials.servers.service import serving


def readiness(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/api/ready")
    said: dict[str, Any] = answer.json()
    assert said["ready"] == (answer.status_code == 200)
    return said


@pytest.fixture
def own(calibrated_by_words: Settings, tmp_path: Path, monkeypatch: Patch) -> Settings:
    """A collection that is looked at all the time."""
    monkeypatch.setattr(collection_watch, "_EVERY", 0.01)
    return copied(calibrated_by_words.home, tmp_path)


def change(settings: Settings, **values: Any) -> str:
    """Change the collection's row; the model that it had."""
    with open_database(settings.database) as engine, engine.begin() as connection:
        (model,) = connection.execute(sa.select(Collection.model)).scalars()
        connection.execute(sa.update(Collection).values(**values))
    return str(model)


def test_it_follows_what_happens(own: Settings) -> None:
    store, away = own.home / "store", own.home / "away"
    store.rename(away)
    with serving(ServiceOptions(own, device="cpu")) as client:
        until(lambda: not readiness(client)["ready"])
        away.rename(store)
        until(lambda: readiness(client)["ready"])


def test_a_model_that_does_not_fit_is_not_loaded_over_and_over(own: Settings, monkeypatch: Patch) -> None:
    loaded = Mock(side_effect=open_query_encoder)
    monkeypatch.setattr("query.service.open_collections.open_query_encoder", loaded)
    right = change(own, model="another")
    with serving(ServiceOptions(own, device="cpu")) as client:
        for _ in range(10):
            assert client.post("/api/search", json={"query": "coffee"}).status_code == 503
            assert not readiness(client)["ready"]
        assert loaded.call_count == 1
        change(own, model=right)
        until(lambda: readiness(client)["ready"])
        assert loaded.call_count == 2


def test_what_stays_broken_is_logged_once(own: Settings, monkeypatch: Patch, caplog: Log) -> None:
    look, looks = CollectionWatch._collection_state, []

    def counted(watch: CollectionWatch, name: str, previous: str) -> str:
        looks.append(look(watch, name, previous))
        return looks[-1]

    def errors_after_three_looks() -> int:
        until(lambda: sum("the log says why" in state for state in looks) >= 3)
        return sum(record.levelname == "ERROR" for record in caplog.records)

    monkeypatch.setattr(CollectionWatch, "_collection_state", counted)
    right = change(own, model="another")
    with serving(ServiceOptions(own, device="cpu")) as client:
        assert errors_after_three_looks() == 1
        change(own, model=right)
        until(lambda: readiness(client)["ready"])
        looks.clear()
        change(own, model="another")
        assert errors_after_three_looks() == 2


def test_neither_an_empty_collection_nor_an_encoder_of_few_words_is_a_failure(settings: Settings) -> None:
    """The query that a collection is opened with has no word of what this encoder was trained on."""
    folder, ids, sources = settings.home.parent, [], []
    for lang in ("de", "en"):
        articles = [json.loads(line) for line in (DEMO / f"docs.{lang}.jsonl").read_text("utf-8").splitlines()]
        for at, article in enumerate(articles):
            article.update(title="", text=f"{lang}word{at % 5} {lang}word{at % 3}")
        sources.append(str(write_records(articles, folder / f"{lang}.jsonl")))
        ids += [article["id"] for article in articles]
    words, place = str(folder / "words"), ["--home", str(settings.home), "-q"]
    assert run(["train", "cr5", *sources, "-o", words, "--dimensions", "3", "--ridge", "1", "-q"]) == 0
    for name in ("words", "none"):
        assert run(["index", *sources, "-c", name, "--encoder", words, *place, "--no-calibration"]) == 0
    assert run(["delete", "-c", "none", *ids, *place]) == 0
    with serving(ServiceOptions(settings, device="cpu")) as client:
        assert readiness(client)["collections"] == {"words": "ready", "none": "empty"}
        found, empty = (
            client.post("/api/search", json={"query": "deword1", "lang": "de", "collection": name})
            for name in ("words", "none")
        )
        assert found.json()["hits"]
        assert (empty.status_code, "holds no documents" in empty.text) == (409, True)
