"""Workers encode a migrated collection again: what one process makes, and every document is found meanwhile."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

from encoders.document import EncoderSpec
from encoders.folder.model_folder import ModelFolder
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.ledger import index_runs, tables
from indexer.ledger.database import open_database
from indexer.ledger.index_runs import active_reencoding
from indexer.reencode import hand_out_stored
from indexer.stores.contract import VectorStore
from indexer.workers.run_watch import run_progress
from onnx_export.models import DEFAULT
from query.calibration import calibration_table
from query.calibration.lineage import leave_migration
from query.cli import run
from query.migration import document_reencoding
from query.migration.document_reencoding import finish_migration
from tests.conftest import until
from tests.indexer.workers.site import Site
from tests.query.conftest import moved
from tests.query.migration import encoding_again as demo
from trials import DEMO
from trials.servers.rabbitmq import RabbitServer
from trials.servers.redis import RedisServer

CHUNK = 8
"""Documents of a chunk: few, so that there are many to be killed among."""
PROGRAM = """
import sys
from indexer.indexing import reading as batches
from query.cli import run
from tests.query.migration.test_reencoding_by_workers import CHUNK
batches.CHUNK_DOCUMENTS = CHUNK
sys.exit(run(sys.argv[1:]))
"""


class Again(Site):
    """The migrated demo, whose documents the command encodes again in chunks of a few."""

    def __init__(self, folder: Path, broker: str, encoder: str) -> None:
        super().__init__(folder, broker)
        self.arguments = demo.command(encoder)

    def command(self) -> subprocess.Popen[str]:
        """Begin, or go on; returns when workers may."""
        process = self.start(*(one for one in self.arguments if one != "-q"), program=("-c", PROGRAM))
        until(lambda: "start one: dragoman worker -c demo" in self.said(process) or process.poll() is not None, 300)
        assert process.poll() is None, self.said(process)
        return process

    def worker(self) -> subprocess.Popen[str]:
        return self.start("worker", "-c", "demo", "--lease", "2", "--device", "cpu")

    def here(self, *more: str) -> int:
        return run([*self.arguments, "--home", str(self.settings.home), "--broker", self.settings.broker, *more])

    def run(self) -> tables.IndexRun:
        with open_database(self.settings.database) as engine:
            return [one for one in index_runs.runs(engine, "demo") if one.again][-1]

    def done(self) -> int:
        """Chunks that are, and had something to encode."""
        with open_database(self.settings.database) as engine:
            return run_progress(engine, self.run().id).done // CHUNK


@pytest.fixture
def again(migrated_by_words: Settings, word_model: ModelFolder, redis: RedisServer, tmp_path: Path) -> Iterator[Again]:
    shutil.copytree(migrated_by_words.home, tmp_path / "home")
    with closing(Again(tmp_path, redis.url, str(word_model.path))) as made:
        yield made


def test_a_worker_makes_what_one_process_makes(
    again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("indexer.indexing.reading.CHUNK_DOCUMENTS", CHUNK)
    shutil.copytree(again.settings.home, tmp_path / "alone")
    alone = Settings.read(home=tmp_path / "alone")
    finish_migration("demo", alone, device="cpu")
    process = again.command()
    process.kill()
    process.wait()  # its lock of the collection goes with it
    again.worker()
    capsys.readouterr()
    assert again.here("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["encoded"], told["unchanged"]) == (demo.DOCUMENTS, 0)
    assert demo.vectors(again.settings) == demo.vectors(alone)
    assert demo.row(again.settings).method == "first"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_command_and_worker_killed_in_the_midst_all_is_found_and_at_the_end_it_is_what_one_process_makes(
    migrated: Settings, rabbitmq: RabbitServer, elastic_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("indexer.indexing.reading.CHUNK_DOCUMENTS", CHUNK)
    place = moved(migrated, "demo", elastic_url, tmp_path / "home")
    shutil.copytree(migrated.home, tmp_path / "undisturbed")
    undisturbed = Settings.read(home=tmp_path / "undisturbed")
    finish_migration("demo", undisturbed, device="cpu")
    new, before = demo.migrated_to(place), demo.found_through_the_map(place)
    with closing(Again(tmp_path, rabbitmq.url, DEFAULT)) as site:
        asking, worker = site.command(), site.worker()
        until(lambda: site.done() >= 2, 300)
        for process in (worker, asking):
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert run(["pause", "-c", "demo", "--home", str(place.home)]) == 0
        until(lambda: demo.encoded_again(place, new) > CHUNK, 60)  # refreshed within a second
        assert demo.encoded_again(place, new) < demo.DOCUMENTS
        assert demo.found_through_the_map(place) == before
        assert run(["resume", "-c", "demo", "--home", str(place.home), "--broker", rabbitmq.url]) == 0
        site.worker()
        capsys.readouterr()
        assert site.here("--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["encoded"], told["unchanged"]) == (demo.DOCUMENTS, 0)
        assert site.run().builds == {site.run().build: told["encoded"]}
    assert demo.vectors(place) == demo.vectors(undisturbed)
    assert demo.row(place).method == "first"
    assert (demo.row(place).model, demo.migrated_to(place)) == (new, "")
    answers = demo.first(place)
    monkeypatch.setenv("DRAGOMAN_HOME", str(place.home))
    assert run(["rollback", "-c", "demo", "-q"]) == 0
    assert demo.first(place) != answers


@pytest.mark.parametrize("how", ["rollback", pytest.param("calibrate", marks=pytest.mark.long)])
def test_left_in_the_midst_whoever_waits_is_told(again: Again, how: str, calibrated_by_words: Settings) -> None:
    asking = again.command()
    with open_database(again.settings.database) as engine:
        kept = calibration_table.active(engine, collections.require(engine, "demo"))
        assert kept
        leaving = {"rollback": ["rollback"], "calibrate": ["calibrate", "--use", kept.summary.migrated_from]}[how]
        assert run([*leaving, "-c", "demo", "--home", str(again.settings.home)]) == 0
        assert asking.wait(60) == 1
        assert "no longer encodes the queries of" in again.said(asking).splitlines()[-1]
        assert (active_reencoding(engine, "demo"), again.run().state) == (None, "cancelled")
    assert demo.first(again.settings) == demo.first(calibrated_by_words)
    assert demo.migrated_to(again.settings) == ""


def test_meanwhile_nothing_is_indexed_not_even_a_generation_of_the_new_encoder(
    again: Again, word_model: ModelFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(document_reencoding, "watch_run", Mock(side_effect=KeyboardInterrupt))
    assert again.here() == 130
    rebuild = ["--rebuild", "--encoder", str(word_model.path), "--method", "first", "--home", str(again.settings.home)]
    for broker in ([], ["--broker", again.settings.broker]):
        capsys.readouterr()
        assert run(["index", str(DEMO / "docs.de.jsonl"), "-c", "demo", *rebuild, *broker]) == 1
        assert f"workers are at run {again.run().id} of collection demo" in capsys.readouterr().err
        assert demo.row(again.settings).building is None


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_only_ends_looking_on(again: Again) -> None:
    asking = again.command()
    asking.send_signal(signal.SIGINT)
    assert asking.wait(60) == 130
    assert "goes on without this command" in again.said(asking)
    assert "when it is done: the same command makes the change" in again.said(asking)
    assert again.run().state == "running"


def test_where_all_is_encoded_no_worker_is_waited_for(again: Again, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when this command was broken off between the last vector and the change."""
    with monkeypatch.context() as patch:
        patch.setattr(generations, "switch_model", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            finish_migration("demo", Settings.read(home=again.settings.home), device="cpu")
    assert demo.row(again.settings).method != "first"
    assert again.here() == 0
    assert demo.row(again.settings).method == "first"
    assert (again.run().state, again.run().encoded, again.run().unchanged) == ("done", 0, demo.DOCUMENTS)


def test_a_broker_that_is_away_is_said_and_left_before_anything_is_handed_out_no_run_is_left_behind(
    again: Again, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("indexer.workers.hints._CONNECT_RETRIES", 1)
    assert again.here("--broker", "redis://127.0.0.1:1/0") == 1
    assert "the broker redis://127.0.0.1:1/0 can't be reached" in capsys.readouterr().err
    assert demo.encoded_again(again.settings, demo.migrated_to(again.settings)) == 0

    def leaving(encoder: str, spec: EncoderSpec, store: VectorStore, engine: sa.Engine, name: str, **more: Any) -> Any:
        assert leave_migration(engine, name)
        return hand_out_stored(encoder, spec, store, engine, name, **more)

    monkeypatch.setattr(document_reencoding, "hand_out_stored", leaving)
    assert again.here() == 1
    assert "no longer encodes the queries of" in capsys.readouterr().err
    assert again.run().state == "cancelled"
