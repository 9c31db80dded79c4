"""``/api/ready``: red for what somebody must see to, and for that alone."""

import json
import shutil
from pathlib import Path
from typing import Any

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
from tests.conftest import until
from trials import DEMO
from trials.servers.service import serving


def readiness(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/api/ready")
    said: dict[str, Any] = answer.json()
    assert said["ready"] == (answer.status_code == 200)
    return said


def test_it_follows_what_happens(calibrated: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_watch, "_EVERY", 0.1)
    shutil.copytree(calibrated.home, tmp_path / "home")
    own = Settings.read(home=tmp_path / "home")
    (tmp_path / "home" / "store").rename(tmp_path / "away")

    def becomes(client: httpx.Client, ready: bool) -> None:
        until(lambda: readiness(client)["ready"] == ready)

    with serving(ServiceOptions(own, device="cpu")) as client:
        becomes(client, ready=False)
        (tmp_path / "away").rename(tmp_path / "home" / "store")
        becomes(client, ready=True)
        with open_database(own.database) as engine, engine.begin() as connection:
            connection.execute(sa.update(Collection).values(generation=7))
        becomes(client, ready=False)


def test_a_model_that_does_not_fit_is_not_loaded_over_and_over(
    calibrated: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def counting(row: Collection, *rest: Any) -> Any:
        loaded.append(row.model)
        return open_query_encoder(row, *rest)

    monkeypatch.setattr(collection_watch, "_EVERY", 0.01)
    monkeypatch.setattr("query.service.open_collections.open_query_encoder", counting)
    shutil.copytree(calibrated.home, tmp_path / "home")
    own = Settings.read(home=tmp_path / "home")
    with open_database(own.database) as engine, engine.begin() as connection:
        (right,) = connection.execute(sa.select(Collection.model)).scalars()
        connection.execute(sa.update(Collection).values(model="another"))
    with serving(ServiceOptions(own, device="cpu")) as client:
        for _ in range(10):
            assert client.post("/api/search", json={"query": "coffee"}).status_code == 503
            assert not readiness(client)["ready"]
        assert loaded == ["another"]
        with open_database(own.database) as engine, engine.begin() as connection:
            connection.execute(sa.update(Collection).values(model=right))
        until(lambda: readiness(client)["ready"])
        assert loaded == ["another", right]


def test_a_collection_that_stays_broken_is_logged_once(
    calibrated: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look, looks = CollectionWatch._collection_state, []

    def counted(watch: CollectionWatch, name: str, previous: str) -> str:
        looks.append(look(watch, name, previous))
        return looks[-1]

    monkeypatch.setattr(collection_watch, "_EVERY", 0.01)
    monkeypatch.setattr(CollectionWatch, "_collection_state", counted)
    shutil.copytree(calibrated.home, tmp_path / "home")
    own = Settings.read(home=tmp_path / "home")

    def change(model: str) -> None:
        with open_database(own.database) as engine, engine.begin() as connection:
            connection.execute(sa.update(Collection).values(model=model))

    with open_database(own.database) as engine, engine.begin() as connection:
        (right,) = connection.execute(sa.select(Collection.model)).scalars()
    change("another")
    with serving(ServiceOptions(own, device="cpu")) as client:
        until(lambda: sum("the log says why" in state for state in looks) >= 3)
        assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
        change(right)
        until(lambda: readiness(client)["ready"])
        looks.clear()
        change("another")
        until(lambda: sum("the log says why" in state for state in looks) >= 3)
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 2


def test_neither_an_empty_collection_nor_an_encoder_of_few_words_is_a_failure(settings: Settings) -> None:
    """The query that a collection is opened with has no word of what this encoder was trained on."""
    home = settings.home
    place, words = ["--home", str(home), "-q", "--no-calibration"], home.parent / "words"
    ids = []
    for lang in ("de", "en"):
        articles = [json.loads(line) for line in (DEMO / f"docs.{lang}.jsonl").read_text("utf-8").splitlines()]
        for at, article in enumerate(articles):
            article.update(title="", text=f"{lang}word{at % 5} {lang}word{at % 3}")
        (home.parent / f"{lang}.jsonl").write_text("\n".join(map(json.dumps, articles)), "utf-8")
        ids += [article["id"] for article in articles]
    sources = [str(home.parent / f"{lang}.jsonl") for lang in ("de", "en")]
    assert run(["train", "cr5", *sources, "-o", str(words), "--dimensions", "3", "--ridge", "1", "-q"]) == 0
    for name in ("words", "none"):
        assert run(["index", *sources, "-c", name, "--encoder", str(words), *place]) == 0
    assert run(["delete", "-c", "none", *ids, "--home", str(home), "-q"]) == 0
    with serving(ServiceOptions(settings, device="cpu")) as client:
        assert readiness(client)["collections"] == {"words": "ready", "none": "empty"}
        assert client.post("/api/search", json={"query": "deword1", "lang": "de", "collection": "words"}).json()["hits"]
        empty = client.post("/api/search", json={"query": "deword1", "lang": "de", "collection": "none"})
        assert (empty.status_code, "holds no documents" in empty.text) == (409, True)
