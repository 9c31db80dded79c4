"""Signals to a worker, and its end when it is of no use any more."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from indexer.ledger.database import transaction
from indexer.ledger.tables import LEASED, Chunk
from indexer.workers.progress import run_progress
from tests.conftest import until
from tests.indexer.workers.conftest import Field, answers_inspect, new_database
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.servers.redis import RedisServer


def run_of(documents: int, redis: RedisServer, folder: Path) -> Iterator[Field]:
    """A run of so many documents, ledger on SQLite."""
    with closing(Field(f"sqlite:///{folder / 'ledger.db'}", redis.url, folder)) as field:
        field.begin(documents)
        yield field


@pytest.fixture
def busy(redis: RedisServer, tmp_path: Path) -> Iterator[Field]:
    """A run of one chunk."""
    yield from run_of(3, redis, tmp_path)


@pytest.fixture
def wide(redis: RedisServer, tmp_path: Path) -> Iterator[Field]:
    """A run of several chunks."""
    yield from run_of(200, redis, tmp_path)


def chunks(field: Field) -> dict[str, int]:
    return run_progress(field.engine, 1).chunks


def owners(field: Field) -> set[str | None]:
    """The lanes that have a chunk."""
    with transaction(field.engine) as session:
        return set(session.scalars(sa.select(Chunk.owner).where(Chunk.state == LEASED)))


@pytest.mark.parametrize("concurrency", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_second_ctrl_c_returns_the_chunk_at_once_and_blames_nobody(busy: Field, concurrency: int) -> None:
    worker = busy.act("slow", concurrency=concurrency, grace=300)
    until(lambda: chunks(busy) == {"leased": 1})
    os.killpg(worker.pid, signal.SIGINT)
    until(lambda: "asked to end" in busy.log.read_text())
    asked = time.monotonic()
    os.killpg(worker.pid, signal.SIGINT)
    assert worker.wait(60) == 0
    assert time.monotonic() - asked < 45
    until(lambda: chunks(busy) == {"pending": 1})  # the last process may be at it still
    assert run_progress(busy.engine, 1).errors == []
    assert "attempt" not in busy.log.read_text()


@pytest.mark.long
@pytest.mark.parametrize("away", ["broker", "database"])
def test_a_worker_ends_in_time_though_a_server_is_away(
    away: str, killable_postgres: PostgresServer, tmp_path: Path
) -> None:
    with running(RedisServer) as broker, closing(Field(new_database(killable_postgres), broker.url, tmp_path)) as field:
        field.begin(3)
        worker = field.act("slow", grace=1)
        until(lambda: chunks(field) == {"leased": 1})
        try:
            (broker if away == "broker" else killable_postgres).kill()
            worker.terminate()
            asked = time.monotonic()
            assert worker.wait(60) == 0
            assert time.monotonic() - asked < 45
        finally:
            if away == "database":
                killable_postgres.start()
        # a database that is killed may forget who has a chunk, not that there is one
        assert chunks(field) in ([{"pending": 1}] if away == "broker" else [{"pending": 1}, {"leased": 1}])


def test_a_worker_asked_to_end_with_time_enough_finishes_its_chunk(busy: Field) -> None:
    worker = busy.act("held", grace=300)
    until(lambda: chunks(busy) == {"leased": 1})
    worker.terminate()
    until(lambda: "asked to end" in busy.log.read_text())
    (busy.settings.home / "go").touch()
    assert worker.wait(60) == 0
    assert run_progress(busy.engine, 1).done == 3  # its chunk is deleted where the worker had time to end the run
    assert "3 documents stored, 0 refused" in busy.log.read_text()


@pytest.mark.parametrize(
    ("how", "concurrency"),
    [
        (signal.SIGTERM, 1),
        (signal.SIGTERM, 2),
        (signal.SIGHUP, 1),
        pytest.param(signal.SIGHUP, 2, marks=pytest.mark.long),
    ],
)
def test_a_terminal_that_closes_and_a_service_manager_end_a_worker_alike(
    busy: Field, how: signal.Signals, concurrency: int
) -> None:
    """Every process is asked at once. Celery would begin anew at SIGHUP, and its pool break off what a child is at."""
    worker = busy.act("slow", concurrency=concurrency, grace=1)
    until(lambda: chunks(busy) == {"leased": 1})
    os.killpg(worker.pid, how)
    assert worker.wait(60) == 0
    until(lambda: chunks(busy) == {"pending": 1})
    until(lambda: run_progress(busy.engine, 1).workers == [])
    assert "the chunk goes back" in busy.log.read_text()
    assert busy.settings.broker not in busy.log.read_text()


@pytest.mark.parametrize("concurrency", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_worker_that_encodes_nothing_any_more_ends_with_an_error(busy: Field, concurrency: int) -> None:
    """So that whatever looks after it starts another process; the chunk waits, and nothing is counted against it."""
    worker = busy.act("sick", concurrency=concurrency, lease=4.0)
    assert worker.wait(120) == 1
    until(lambda: chunks(busy) == {"pending": 1})
    assert "3 chunks in a row went back because nothing is encoded: the worker ends" in busy.log.read_text()
    assert "Traceback" not in busy.log.read_text()


def test_an_idle_worker_answers_celery_s_inspect(busy: Field) -> None:
    worker = busy.act("well", concurrency=2)
    until(lambda: answers_inspect(busy.settings.broker, worker.pid), 120)


def test_two_lanes_work_on_two_chunks_at_once_and_finish_them(wide: Field) -> None:
    worker = wide.act("held", lanes=2, grace=300)
    until(lambda: len(owners(wide)) == 2)  # each lane holds a chunk until the file is made
    (wide.settings.home / "go").touch()
    until(lambda: run_progress(wide.engine, 1).done == 200)
    worker.terminate()
    assert worker.wait(60) == 0
    assert len(wide.store.sample(wide.model, "en", 300)) == 200
    assert run_progress(wide.engine, 1).errors == []


def test_both_lanes_give_their_chunks_back_when_the_time_to_finish_is_over(wide: Field) -> None:
    before = chunks(wide)
    worker = wide.act("slow", lanes=2, grace=1)
    until(lambda: len(owners(wide)) == 2)
    worker.terminate()
    assert worker.wait(60) == 0
    assert chunks(wide) == before
    assert wide.log.read_text().count("the chunk goes back") == 2
    assert run_progress(wide.engine, 1).workers == []


def test_a_killed_worker_of_two_lanes_loses_nothing(wide: Field) -> None:
    worker = wide.act("slow", lanes=2, lease=1)
    until(lambda: len(owners(wide)) == 2)
    worker.kill()
    wide.act("well", lanes=2)
    until(lambda: run_progress(wide.engine, 1).done == 200)
    assert len(wide.store.sample(wide.model, "en", 300)) == 200


def test_two_lanes_that_encode_nothing_any_more_end_the_worker_with_an_error(wide: Field) -> None:
    worker = wide.act("sick", lanes=2, lease=4.0)
    assert worker.wait(120) == 1
    assert "the worker ends" in wide.log.read_text()
    assert run_progress(wide.engine, 1).done == 0
