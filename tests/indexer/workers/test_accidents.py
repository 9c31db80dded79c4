"""Signals to a worker, its end when it is of no use any more, and accidents: it, a document or a server kills it."""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from indexer.ledger.database import transaction
from indexer.ledger.tables import LEASED, Chunk
from indexer.workers.celery_worker import GPU_LANES
from indexer.workers.hints import make_app
from indexer.workers.leases import DIED
from indexer.workers.progress import run_progress
from tests.conftest import fallen, skip_or_fail, until
from tests.indexer.workers.conftest import Field, new_database, records
from trials.servers.postgres import PostgresServer
from trials.servers.process import ServerMissing, running
from trials.servers.redis import RedisServer
from trials.worker_accidents import BROKERS, Trial, running_servers


@pytest.fixture
def busy(on_redis: Field) -> Field:
    on_redis.begin(3)
    return on_redis


@pytest.fixture
def wide(on_redis: Field) -> Field:
    on_redis.begin(200)
    return on_redis


def is_done(field: Field) -> bool:
    return field.states() == ["done"]


def owners(field: Field) -> set[str | None]:
    """The lanes that have a chunk."""
    with transaction(field.engine) as session:
        return set(session.scalars(sa.select(Chunk.owner).where(Chunk.state == LEASED)))


@pytest.mark.parametrize("concurrency", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_second_ctrl_c_returns_the_chunk_at_once_and_blames_nobody(busy: Field, concurrency: int) -> None:
    worker = busy.act("slow", concurrency=concurrency, grace=300)
    until(lambda: busy.chunks() == {"leased": 1})
    os.killpg(worker.pid, signal.SIGINT)
    until(lambda: "asked to end" in busy.log.read_text())
    asked = time.monotonic()
    os.killpg(worker.pid, signal.SIGINT)
    assert worker.wait(60) == 0
    assert time.monotonic() - asked < 45
    until(lambda: busy.chunks() == {"pending": 1})  # the last process may be at it still
    assert run_progress(busy.engine, 1).errors == []
    assert "attempt" not in busy.log.read_text()


@pytest.mark.long
@pytest.mark.parametrize("away", ["broker", "database"])
def test_a_worker_ends_while_a_server_is_away(away: str, killable_postgres: PostgresServer, tmp_path: Path) -> None:
    with running(RedisServer) as broker, closing(Field(new_database(killable_postgres), broker.url, tmp_path)) as field:
        field.begin(3)
        worker = field.act("slow", grace=1)
        until(lambda: field.chunks() == {"leased": 1})
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
        assert field.chunks() in ([{"pending": 1}] if away == "broker" else [{"pending": 1}, {"leased": 1}])


def test_a_worker_asked_to_end_with_time_enough_finishes_its_chunk(busy: Field) -> None:
    worker = busy.act("held", grace=300)
    until(lambda: busy.chunks() == {"leased": 1})
    worker.terminate()
    until(lambda: "asked to end" in busy.log.read_text())
    (busy.settings.home / "go").touch()
    assert worker.wait(60) == 0
    assert run_progress(busy.engine, 1).done == 3  # its chunk is deleted where the worker had time to end the run
    assert "3 documents stored, 0 refused" in busy.log.read_text()


@pytest.mark.parametrize(
    ("how", "processes", "lanes"),
    [
        *((signal.SIGTERM, processes, lanes) for processes, lanes in ((1, 1), (2, 1), (1, 2))),
        (signal.SIGHUP, 1, 1),
        pytest.param(signal.SIGHUP, 2, 1, marks=pytest.mark.long),
    ],
)
def test_sighup_and_sigterm_end_workers_alike(on_redis: Field, how: int, processes: int, lanes: int) -> None:
    """Every process is asked at once. Celery would begin anew at SIGHUP, and its pool break off what a child is at."""
    on_redis.begin(3 if lanes == 1 else 200)
    before = on_redis.chunks()
    worker = on_redis.act("slow", concurrency=processes, lanes=lanes, grace=1)
    until(lambda: len(owners(on_redis)) == lanes)
    os.killpg(worker.pid, how)
    assert worker.wait(60) == 0
    until(lambda: on_redis.chunks() == before)
    until(lambda: run_progress(on_redis.engine, 1).workers == [])
    assert on_redis.log.read_text().count("the chunk goes back") == lanes
    assert on_redis.settings.broker not in on_redis.log.read_text()


@pytest.mark.parametrize(("processes", "lanes"), [(1, 1), pytest.param(2, 1, marks=pytest.mark.long), (1, 2)])
def test_a_worker_that_encodes_nothing_any_more_ends_with_an_error(wide: Field, processes: int, lanes: int) -> None:
    """So that whatever looks after it starts another process; the chunk waits, and nothing is counted against it."""
    before, worker = wide.chunks(), wide.act("sick", concurrency=processes, lanes=lanes, lease=4.0)
    assert worker.wait(120) == 1
    until(lambda: wide.chunks() == before)
    assert "3 chunks in a row went back because nothing is encoded: the worker ends" in wide.log.read_text()
    assert "Traceback" not in wide.log.read_text()


def test_an_idle_worker_answers_celery_s_inspect(busy: Field) -> None:
    worker, control = busy.act("well", concurrency=2), make_app(busy.settings.broker).control
    until(lambda: f"dragoman-{worker.pid}@" in str(control.inspect(timeout=1).ping() or ""), 120)


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_chunks_of_a_worker_that_was_killed_are_another_s(wide: Field, lanes: int) -> None:
    worker = wide.act("slow", lanes=lanes, lease=2.0)
    until(lambda: len(owners(wide)) == lanes)
    worker.kill()
    worker.wait()
    wide.act("well", lanes=lanes, lease=2.0)
    until(lambda: is_done(wide))
    assert (wide.notes(), wide.size()) == ([], 200)


@pytest.mark.parametrize("documents", [2, pytest.param(8, marks=pytest.mark.long)])
def test_a_document_that_kills_its_workers_is_found_and_refused(on_redis: Field, documents: int) -> None:
    """A real SIGKILL of the process that encodes, time after time; Celery starts another."""
    many, killing = records(documents), documents * 5 // 8
    many[killing]["text"] = "it kills"
    on_redis.write(many)
    on_redis.spool()
    worker = on_redis.act("kills", concurrency=2, lease=1.0)
    until(lambda: is_done(on_redis), 240)
    worker.terminate()
    assert worker.wait(60) == 0
    (note,) = on_redis.notes()
    assert (note.doc_id, note.text) == (f"d{killing:04d}", f"it can't be encoded: {DIED}")
    assert on_redis.size() == documents - 1


def test_a_killed_worker_s_successor_goes_on_inside_a_long_document(on_redis: Field) -> None:
    on_redis.write([{"id": "book", "lang": "en", "text": "word" * 75_000}])
    on_redis.spool()
    on_redis.act("tires", concurrency=2, lease=1.0)
    until(lambda: is_done(on_redis), 120)
    assert (on_redis.settings.home / "batches").read_text() == "0 1 2 3 4 5 "
    assert (on_redis.notes(), on_redis.size()) == ([], 1)
    assert not on_redis.settings.checkpoints("c").exists()


COMMON = (
    "a worker killed",
    "the database killed",
    "messages dropped",
    "a worker stopped for longer than its lease",
    "the broker killed",
)
CLOCKS = (
    "the database's clock set back, and a worker killed",
    "a worker's clock set",
    "the broker's clock set",
    "the database's clock set",
    "the publisher's clock set",
    "Elasticsearch's clock set",
)


@pytest.mark.elastic
@pytest.mark.long
@pytest.mark.parametrize(
    ("broker", "lanes", "kinds"),
    [
        ("rabbitmq", 1, (*COMMON, "the publisher killed", "Elasticsearch killed")),
        *(
            ("redis", lanes, (*COMMON, "Elasticsearch's disk full", "a worker asked to end", "messages doubled"))
            for lanes in (1, GPU_LANES)
        ),
        *((broker, 1, CLOCKS) for broker in sorted(BROKERS)),
    ],
)
@pytest.mark.usefixtures("default_folder")
def test_nothing_is_lost_doubled_or_changed(broker: str, lanes: int, kinds: Sequence[str], tmp_path: Path) -> None:
    """A worker on a CPU has one lane; on a card one encodes while the others read, put and mark."""
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a clock that is an hour fast: apt-get install gcc")
    with ExitStack() as stack:
        try:
            servers = stack.enter_context(running_servers(broker))
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        trial = Trial(servers, tmp_path, 640, seed=1, name=f"trial-{broker}-{lanes}", lanes=lanes)
        outcomes = trial.run(kinds)
    assert (fallen(outcomes), len(outcomes)) == ([], len(kinds))
