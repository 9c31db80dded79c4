"""A collection built anew beside the one that is searched."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput, StoreError
from indexer import index_sources as indexing
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.ledger import index_runs
from indexer.ledger.database import connect, open_database
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import DONE
from indexer.workers import sweeps
from onnx_export.models import open_named
from tests.conftest import Patch
from trials.servers.elastic import client_of

pytestmark = pytest.mark.usefixtures("default_folder")

TEXTS = {
    "flood": ("en", "The river rose after a week of rain and the old town was under water."),
    "flut": ("de", "Nach einer Woche Regen stieg der Fluss, und die Altstadt stand unter Wasser."),
    "chess": ("en", "She won the chess tournament without losing a game."),
}


@pytest.fixture(params=["embedded", pytest.param("elastic", marks=pytest.mark.elastic)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    store = None if request.param == "embedded" else request.getfixturevalue("elastic_url")
    return Settings.read(home=tmp_path / "home", store=store)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path, TEXTS)


def write(folder: Path, texts: dict[str, tuple[str, str]]) -> Path:
    path = folder / "docs.jsonl"
    records = ({"id": name, "lang": lang, "text": text} for name, (lang, text) in texts.items())
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def row(settings: Settings) -> Collection:
    with open_database(settings.database) as engine:
        return collections.require(engine, "c")


def stored(settings: Settings) -> tuple[list[str], list[str]]:
    with closing(row(settings).open_store(settings)) as store:
        return list(store.ids()), list(store.models())


def index(settings: Settings, source: Path, **others: object) -> pipeline.IndexReport:
    return indexing.index([str(source)], "c", settings=settings, device="cpu", **others)  # type: ignore[arg-type]


def roll_back(settings: Settings) -> generations.Generation:
    with open_database(settings.database) as engine:
        return generations.roll_back(engine, "c", settings)


def delete(settings: Settings) -> None:
    with open_database(settings.database) as engine:
        collections.remove(engine, row(settings), settings)


def interrupt(settings: Settings, source: Path, target: object, name: str, method: str = "first") -> None:
    """Begin a rebuild whose process is interrupted in a function, before the function does anything."""
    with Patch.context() as patch:
        patch.setattr(target, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            index(settings, source, method=method, rebuild=True)


def test_a_rebuild_takes_its_place_and_rollback_returns(settings: Settings, source: Path, tmp_path: Path) -> None:
    index(settings, source)
    before = stored(settings)
    write(tmp_path, {name: TEXTS[name] for name in ("flood", "chess")})
    assert index(settings, source, method="first", rebuild=True).encoded == 2
    with open_database(settings.database) as engine:
        assert [run.generation for run in index_runs.runs(engine, "c")] == [1, 2]
    after = stored(settings)
    assert after[0] == ["chess", "flood"]
    assert after[1] != before[1]
    assert (row(settings).method, row(settings).generation, row(settings).building) == ("first", 2, None)
    assert (roll_back(settings).method, stored(settings)) == ("windows", before)
    assert (roll_back(settings).method, stored(settings)) == ("first", after)
    index(settings, source, method="segments", rebuild=True)
    assert places(settings) == [2, 3]  # one earlier generation is kept
    delete(settings)
    assert places(settings) == []


def places(settings: Settings) -> list[int]:
    """Numbers of the generations that take room, wherever the store is."""
    if settings.store.startswith("http"):
        server, _, prefix = settings.store.rpartition("/")
        with client_of(server) as client:
            return sorted(int(name[-6:]) for name in client.indices.get(index=f"{prefix}-*").body)
    names = [path.stem for path in (settings.home / "store").glob("*.db")]
    return sorted(int(name.partition("@")[2] or 1) for name in names)


@pytest.mark.elastic
def test_a_rebuild_changes_the_kind_of_an_index(elastic_url: str, source: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    flat, graph, elsewhere = (
        Settings.read(home=home, store=f"{elastic_url}{ending}")
        for ending in ("", "?vectors=int8_hnsw", "x?vectors=flat")
    )
    index(flat, source)
    for other, changes in ((graph, {}), (elsewhere, {"rebuild": True})):
        with pytest.raises(BadInput, match="collection c lives in"):
            index(other, source, **changes)
    interrupt(graph, source, generations, "switch", "windows")
    index(Settings.read(home=home), source, rebuild=True)
    server, _, prefix = elastic_url.rpartition("/")
    with client_of(server) as client:
        mappings = client.indices.get_mapping(index=f"{prefix}-*").body
    kinds = {int(name[-6:]): "int8_hnsw" in json.dumps(mapping) for name, mapping in mappings.items()}
    assert kinds == {1: False, 2: True}
    roll_back(Settings.read(home=home))
    assert stored(graph)[0] == sorted(TEXTS)


def test_an_interrupted_rebuild_changes_nothing_and_goes_on(settings: Settings, source: Path) -> None:
    index(settings, source)
    before = stored(settings)
    interrupt(settings, source, generations, "switch")
    assert stored(settings) == before
    assert row(settings).building is not None
    report = index(settings, source, method="first", rebuild=True)
    assert (report.encoded, report.unchanged, row(settings).method) == (0, 3, "first")
    interrupt(settings, source, generations, "switch", "segments")
    index(settings, source, method="sentences", rebuild=True)  # one begun with another model is removed
    assert (row(settings).method, places(settings)) == ("sentences", [2, 4])


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("exists", [True, False], ids=["rebuilt", "new"])
def test_while_a_command_opens_its_encoder_no_other_changes_its_collection(
    settings: Settings, source: Path, tmp_path: Path, monkeypatch: Patch, exists: bool
) -> None:
    if exists:
        index(settings, source)

    opener = f"indexer.{'collection.encoder' if exists else 'index_sources'}.open_named"

    def opened_while_another_begins(*arguments: Any, **others: Any) -> Encoder:
        monkeypatch.setattr(opener, open_named)
        with pytest.raises(StoreError, match="another process is indexing collection c"):
            index(settings, source, rebuild=exists)
        return open_named(*arguments, **others)

    monkeypatch.setattr(opener, opened_while_another_begins)
    index(settings, write(tmp_path, {"new": ("en", "A new document.")}))
    assert "new" in stored(settings)[0]


def test_a_rebuild_whose_store_is_gone_encodes_all_again(settings: Settings, source: Path, monkeypatch: Patch) -> None:
    index(settings, source)
    interrupt(settings, source, Ledger, "finish")
    drop = StoreLocation.drop

    def removed_and_interrupted(location: StoreLocation, generation: int = 1) -> None:
        drop(location, generation)
        interrupted()

    with monkeypatch.context() as patch:
        patch.setattr(StoreLocation, "drop", removed_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            index(settings, source, method="sentences", rebuild=True)
    assert (index(settings, source, method="first", rebuild=True).encoded, row(settings).method) == (3, "first")
    assert stored(settings)[0] == ["chess", "flood", "flut"]


def test_a_generation_that_a_kill_left_behind_goes_with_the_next_rebuild(settings: Settings, source: Path) -> None:
    """It is stored, though a collection keeps two: a kill came before its removal."""
    index(settings, source)
    index(settings, source, method="first", rebuild=True)
    interrupt(settings, source, StoreLocation, "drop", "sentences")
    assert (row(settings).generation, places(settings)) == (3, [1, 2, 3])
    interrupt(settings, source, generations, "switch")
    assert places(settings) == [2, 3, 4]
    index(settings, source, method="first", rebuild=True)
    assert places(settings) == [3, 4]
    interrupt(settings, source, StoreLocation, "drop", "sentences")
    assert places(settings) == [3, 4, 5]
    indexing.index([str(source)], "c-d", settings=settings, device="cpu")
    delete(settings)
    assert StoreLocation(settings.store, "c").generations() == []
    assert StoreLocation(settings.store, "c-d").generations() == [1], "another collection's, whose name begins so"


def test_what_can_t_be_rebuilt_or_go_back_is_said(settings: Settings, source: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="leave --rebuild out"):
        index(settings, source, rebuild=True)
    index(settings, source)
    with pytest.raises(BadInput, match="no earlier generation"):
        roll_back(settings)
    before = stored(settings)
    write(tmp_path, {"empty": ("en", "")})
    index(settings, source, rebuild=True)
    assert stored(settings) == before


@pytest.mark.parametrize("by_workers", [False, True])
def test_others_see_nothing_of_a_rebuild_of_nothing(elastic_url: str, tmp_path: Path, by_workers: bool) -> None:
    settings = Settings.read(home=tmp_path / "home", store=elastic_url)
    index(settings, write(tmp_path, TEXTS))
    server, _, prefix = elastic_url.rpartition("/")
    engine = connect(settings.database)
    if by_workers:
        collection = row(settings)
        spec = open_named(collection.encoder, collection.method, Console(quiet=True), device="cpu").spec
        number = generations.begin(engine, "c", settings, collection.encoder, spec).number
        collection.open_store(settings, generation=number, make=True).close()
        ledger = Ledger.open(engine, "c", [], "none", spec.model, spec.build, spooled=True, generation=number)
        ledger.start_workers()
        sweeps.end_run(engine, settings, ledger.run, Console(quiet=True))
    else:
        index(settings, write(tmp_path, {"empty": ("en", "")}), rebuild=True)
    assert index_runs.runs(engine, "c")[-1].state == DONE
    engine.dispose()
    with client_of(server) as client:
        assert client.count(index=f"{prefix}-c")["count"] == 3


def test_others_see_a_whole_generation_at_any_time(elastic_url: str, tmp_path: Path, monkeypatch: Patch) -> None:
    settings = Settings.read(home=tmp_path / "home", store=elastic_url)
    source = write(tmp_path, TEXTS)
    server, _, prefix = elastic_url.rpartition("/")
    with client_of(server) as client:

        def seen() -> tuple[list[str], int]:
            indices = sorted(client.indices.get_alias(name=f"{prefix}-c").body)
            return indices, client.count(index=f"{prefix}-c")["count"]

        index(settings, source)
        assert seen() == ([f"{prefix}-c-000001"], 3)
        write(tmp_path, {"chess": TEXTS["chess"]})
        interrupt(settings, source, generations, "switch")
        assert seen() in (([f"{prefix}-c-000001"], 3), ([f"{prefix}-c-000002"], 1))
        index(settings, source, method="first", rebuild=True)
        assert seen() == ([f"{prefix}-c-000002"], 1)
        roll_back(settings)
        assert seen() == ([f"{prefix}-c-000001"], 3)
