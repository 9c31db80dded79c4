"""What people see of a run that workers are at."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from encoders.console import Console
from encoders.errors import StoreError
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger.index_runs import RunLedger
from indexer.stores.embedded import EmbeddedStore
from indexer.workers import registry
from indexer.workers.leases import Leases
from indexer.workers.registry import Identity
from indexer.workers.run_control import pause, resume
from indexer.workers.run_watch import RunView, run_progress, wait_for, watch_run
from query.cli import run as run_command
from query.commands.output.run_progress import as_lines
from tests.conftest import Capture, Patch, until
from tests.indexer.workers.conftest import Field, one_document, records


def seen(field: Field, rate: float = 0.0) -> list[str]:
    return as_lines(RunView(run_progress(field.engine, 1), rate))


def test_people_are_told_chunks_rate_time_left_workers_and_errors(field: Field) -> None:
    run = field.begin(4 * CHUNK_DOCUMENTS)
    leases = Leases(field.engine, "w", field.model, "build-c", 60.0)
    first, second = leases.take(run, 0), leases.take(run, 1)
    assert first
    assert second
    leases.done(first, CHUNK_DOCUMENTS, [])
    leases.give_back(second, "the disk is full")
    identity = Identity("w", "here", "cpu", field.model, "build-c")
    registry.record_heartbeat(field.engine, identity, 60.0, (run, 2), CHUNK_DOCUMENTS, "the store is away")
    assert seen(field, rate=2.0) == [
        "run 1 of c running: 64/256 documents, 2.0/s, 0:01:36 left; chunks: 1 done, 3 pending; 1 worker alive",
        "  w (cpu): 64 documents, at chunk 2",
        "  last error: w: the store is away",
        "  last error: chunk 1, w: the disk is full",
    ]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_watched_run_says_whether_it_was_resumed(field: Field, resumed: bool, capsys: Capture) -> None:
    field.write(records(2))
    ledger = field.spool()
    field.worker().work(ledger.run.id, 0)
    begun_by = RunLedger(field.engine, ledger.run, resumed=resumed)
    assert watch_run(begun_by, field.settings, Console(quiet=True)).resumed == resumed
    place = ["--home", str(field.settings.home), "--database", field.settings.database]
    assert run_command(["status", "--watch", "-c", "c", *place]) == 0
    assert "run 1 of c done: 2/2 documents" in capsys.readouterr().out


def test_a_run_that_stands_still_says_why_and_what_to_do(field: Field) -> None:
    field.write(records(2))
    reading = field.reading()
    for number, is_new in enumerate((False, True)):  # unchanged documents are read, too
        reading.plan(one_document(number, str(number)), [is_new], spool=b"")
    assert seen(field) == [
        "run 1 of c is reading: 2 documents read; if the command that reads the sources has ended, give it again to "
        "continue"
    ]
    reading.start_workers()
    assert seen(field)[-1] == "  no worker of its model is alive; start one: dragoman worker -c c"
    pause(field.engine, "c")
    assert seen(field)[-1] == "  run 1 is paused; let it go on: dragoman resume -c c"


@contextmanager
def looking_on(field: Field) -> Iterator[None]:
    looking = threading.Thread(target=wait_for, args=(field.engine, 1, Console(), field.settings), daemon=True)
    with Patch.context() as patch:
        patch.setattr("indexer.workers.run_watch._VIEW", 0.05)
        looking.start()
        yield
        looking.join(30)
    assert not looking.is_alive()


def test_whoever_waits_is_told_each_time_that_it_stands_still(field: Field, capsys: Capture) -> None:
    run = field.begin(2)
    said = ""

    def told(sentence: str) -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return sentence in said

    with looking_on(field):
        until(lambda: told("no worker of its model is alive"))
        pause(field.engine, "c")
        until(lambda: told("run 1 is paused"))
        said = ""
        resume(field.engine, "c", field.hints)
        until(lambda: told("no worker of its model is alive"))
        field.work_off(field.worker(), run)
        field.sweep()


def test_whoever_waits_ends_a_run_that_the_last_worker_left_with_every_chunk_done(field: Field) -> None:
    field.write(records(2))
    leases = Leases(field.engine, "gone", field.model, "build-c", 60.0)
    lease = leases.take(field.spool().run.id, 0)
    assert lease
    with looking_on(field):
        assert leases.done(lease, 2, [])
    assert field.states() == ["done"]


@pytest.mark.parts
def test_why_a_run_cannot_end_is_told_once(field: Field, monkeypatch: Patch, capsys: Capture) -> None:
    field.write(records(2))
    field.work_off(field.worker(), field.spool().run.id)
    publish, reasons = EmbeddedStore.publish, ["the disk is full"] * 3 + ["it is away"] * 3

    def failing(store: EmbeddedStore) -> None:
        if reasons:
            raise StoreError(reasons.pop(0))
        publish(store)

    monkeypatch.setattr("indexer.workers.run_watch._SWEEP", 0.0)
    monkeypatch.setattr(EmbeddedStore, "publish", failing)
    with looking_on(field):
        pass
    said = [line for line in capsys.readouterr().err.splitlines() if "its end failed" in line]
    assert said == [
        "warning: every chunk of run 1 is done; its end failed and is tried again: the disk is full",
        "warning: every chunk of run 1 is done; its end failed and is tried again: it is away",
    ]
    assert field.states() == ["done"]
