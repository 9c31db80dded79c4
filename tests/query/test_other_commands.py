"""What another command does in the middle of a command's work, and what a kill leaves to the same command."""

from collections.abc import Callable
from typing import Any

import pytest

from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock, index
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from query.calibration_fitting import recalibration
from query.calibration_fitting.calibration_fit import calibrate
from query.cli import run
from query.collections.removal import remove_collection
from query.evaluation import evaluation_log
from query.migration import document_reencoding
from tests.indexer.workers.site import Site
from tests.query.conftest import SOURCES, Command
from tests.query.migration.encoding_again import row
from trials.command import TOPICS

pytestmark = pytest.mark.parts

INDEX = ["index", *map(str, SOURCES[:3]), "-c", "demo", "--device", "cpu", "-q"]
MIGRATE = ["migrate", "-c", "demo", "--method", "first", "--anyway", "--device", "cpu"]


class Killed(BaseException):
    """Stands for SIGKILL: nobody catches it."""


def delete(home: Settings) -> None:
    with open_database(home.database) as engine:
        remove_collection(engine, row(home), home)


def rebuild(home: Settings) -> None:
    index([str(SOURCES[0])], "demo", settings=home, encoder=row(home).encoder, device="cpu", rebuild=True)


def before(monkeypatch: pytest.MonkeyPatch, place: object, name: str, act: Callable[[], object]) -> None:
    """Act once when a function is called, before it does anything."""
    real: Callable[..., Any] = getattr(place, name)

    def acting(*arguments: Any, **others: Any) -> Any:
        monkeypatch.setattr(place, name, real)
        act()
        return real(*arguments, **others)

    monkeypatch.setattr(place, name, acting)


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("act", [delete, rebuild])
def test_a_calibration_of_a_collection_that_is_gone_is_not_kept(
    home: Settings, monkeypatch: pytest.MonkeyPatch, act: Callable[[Settings], None]
) -> None:
    before(monkeypatch, calibration_table, "keep", lambda: act(home))
    with pytest.raises(BadInput, match="collection demo was deleted, rebuilt, migrated or rolled back while"):
        calibrate("demo", home, device="cpu")
    if act is delete:
        index([str(SOURCES[0])], "demo", settings=home, device="cpu")
    with open_database(home.database) as engine:
        stored = calibration_table.all_calibrations(engine, "demo")
    assert [one.created > row(home).created for one in stored] == ([] if act is delete else [True])


def test_no_deleted_collection_is_evaluated(home: Settings, monkeypatch: pytest.MonkeyPatch, dragoman: Command) -> None:
    before(monkeypatch, evaluation_log, "log", lambda: delete(home))
    said = dragoman("evaluate", "-c", "demo", *TOPICS, "--langs", "de", "-q", status=1)
    assert "collection demo was deleted while this command worked on it" in said
    with open_database(home.database) as engine:
        assert evaluation_log.runs(engine) == []


def test_nothing_is_rolled_back_while_the_collection_is_indexed(home: Settings, dragoman: Command) -> None:
    rebuild(home)
    with open_database(home.database) as engine, collection_lock("demo", engine):
        assert "another process is indexing collection demo" in dragoman("rollback", "-c", "demo", status=1)
    assert row(home).generation == 2


def test_a_migration_left_at_its_end(home: Settings, word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    old = row(home).model
    migrate = [*MIGRATE, "--encoder", str(word_model.path)]
    assert run(migrate) == 0
    before(monkeypatch, document_reencoding, "compare", lambda: run(["rollback", "-c", "demo", "-q"]))
    assert run([*migrate, "--re-encode"]) == 1
    assert row(home).model == old


@pytest.mark.parametrize("moment", ["switch", "switch by workers", "drop_unnamed", "keep_calibrated", "hold"])
def test_a_rebuild_killed_at_its_end_is_completed(
    home: Settings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, moment: str
) -> None:
    command = [*INDEX, "--rebuild", "--method", "first"]
    if moment == "switch by workers":
        site = Site(home.home.parent, request.getfixturevalue("redis").url)
        request.addfinalizer(site.close)
        site.start("worker", "-c", "demo", "--method", "first", "--device", "cpu", "--home", str(home.home))
        command, moment = [*command, "--broker", site.settings.broker], "switch"
    place = {"keep_calibrated": recalibration, "hold": collections}.get(moment, generations)
    after = {"drop_unnamed": (generations, "switch"), "hold": (recalibration, "keep_calibrated")}.get(moment)
    if after:  # it is called at the beginning, too
        before(monkeypatch, *after, lambda: before(monkeypatch, place, moment, kill))
    else:
        before(monkeypatch, place, moment, kill)
    with pytest.raises(Killed):
        run(command)
    with open_database(home.database) as engine:  # before the switch, so that no search meets vectors without it
        known = {stored.model for stored in calibration_table.all_calibrations(engine, "demo")}
    assert {row(home).model, (row(home).building or {"model": row(home).model})["model"]} <= known
    if moment == "keep_calibrated":
        before(monkeypatch, place, moment, kill)
        with pytest.raises(Killed):
            run(command)
    assert run(command) == 0
    collection = row(home)
    assert (collection.generation, collection.previous and collection.previous["number"]) == (2, 1)
    assert collection.building is None
    with open_database(home.database) as engine:
        assert calibration_table.active(engine, collection)
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert row(home).generation == 1
    assert run(command) == 0
    assert row(home).generation == 3, "it was complete: the same command builds anew"


def test_a_migration_killed_after_its_switch_is_completed_by_the_same_command(
    home: Settings, word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch, dragoman: Command
) -> None:
    command = [*MIGRATE, "--encoder", str(word_model.path), "--re-encode"]
    before(monkeypatch, document_reencoding, "ReencodingReport", kill)
    with pytest.raises(Killed):
        dragoman(*command)
    assert f"every document of demo is encoded by {word_model.path} already" in dragoman(*command)
