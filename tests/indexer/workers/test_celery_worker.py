"""What a worker settles before it works, its processes, signals and queues, and accidents: all that may kill it."""

import json
import logging
import os
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kombu import Connection

from encoders.document import EncoderSpec
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import GpuFailure
from encoders.machine.placement import GpuUnavailable, NoCuda
from indexer.collection.settings import Settings
from indexer.ledger.database import transaction
from indexer.ledger.tables import LEASED, Chunk
from indexer.workers import celery_worker, hints
from indexer.workers.celery_worker import GPU_LANES, WorkerPlan
from indexer.workers.gpu_processes import PERMANENT, run_for_each_card
from indexer.workers.hints import TASK, Hints, make_app, queue, queue_of
from indexer.workers.leases import DIED
from indexer.workers.registry import alive
from indexer.workers.run_watch import run_progress
from onnx_export.models import DEFAULT
from tests.conftest import Log, Patch, fallen, installed, skip_or_fail, until
from tests.encoders.gpus import Library, install_cards, install_provider
from tests.indexer.workers.conftest import QUIET, Field, new_database, records
from trials.servers.postgres import PostgresServer
from trials.servers.process import free_port, running
from trials.servers.rabbitmq import RabbitServer
from trials.servers.redis import RedisServer
from trials.worker_accidents import BROKERS, Trial, running_servers


def test_auto_takes_the_cpu_where_cuda_fails(monkeypatch: Patch, caplog: Log) -> None:
    def fails(_: WorkerPlan) -> EncoderSpec:
        raise NoCuda("cuDNN is missing; install it")

    install_cards(monkeypatch, Library(["H100", "H200"]))
    plan = WorkerPlan(DEFAULT, None, "auto", concurrency=2)
    monkeypatch.setattr(celery_worker, "_spec_elsewhere", fails)
    reasons = {True: "cuDNN is missing; install it", False: f"{DEFAULT} has a part that cards can't run"}
    for for_gpus, why in reasons.items():
        monkeypatch.setattr(celery_worker, "are_for_gpus", lambda *_, it_is=for_gpus: it_is)
        with caplog.at_level(logging.WARNING):
            assert celery_worker._checked(plan, QUIET) == replace(plan, device="cpu")
        assert f"works on the CPU: {why}" in caplog.text
    for sharers, lanes in ((1, GPU_LANES), (3, GPU_LANES // 2)):
        on_card = replace(plan, device="cuda:1", sharers=sharers)
        assert celery_worker._checked(on_card, QUIET) == replace(on_card, lanes=lanes)


@pytest.mark.parametrize(("cards", "concurrency", "each"), [(1, None, 4), (2, None, 2), (2, 1, 1), (1, 3, 3)])
def test_each_card_has_the_processes_that_its_cores_feed_each_with_its_own_port(
    cards: int,
    concurrency: int | None,
    each: int,
    redis: RedisServer,
    default_folder: ModelFolder,
    tmp_path: Path,
    monkeypatch: Patch,
) -> None:  # fmt: skip
    begun: list[WorkerPlan] = []

    def run(work: Mapping[str, partial[int]]) -> int:
        begun.extend(function.args[0] for function in work.values())
        return 0

    install_cards(monkeypatch, Library(["H100"] * cards))
    monkeypatch.setattr(celery_worker, "run_for_each_card", run)
    monkeypatch.setattr(celery_worker, "available_cores", lambda: 8)
    settings = Settings.read(home=tmp_path / "home", broker=redis.url)
    plan = WorkerPlan(str(default_folder.path), None, "cuda", concurrency, metrics_address=("127.0.0.1", 9108))
    assert celery_worker.serve(plan, settings, QUIET) == 0
    assert [(one.device, one.sharers, one.metrics_address) for one in begun] == [
        (f"cuda:{number // each}", each, ("127.0.0.1", 9108 + number)) for number in range(cards * each)
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (GpuUnavailable("H100", "it is full"), 1),
        (GpuFailure("the H100 computes nothing any more"), 1),
        (StoreError("the database is away"), 1),
        (NoCuda("cuDNN is missing"), PERMANENT),
        (BadInput("no such encoder"), PERMANENT),
    ],
)
def test_a_lasting_failure_is_final(error: DragomanError, status: int, tmp_path: Path, monkeypatch: Patch) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr(celery_worker, "serve", fails)
    plan = WorkerPlan(DEFAULT, None, "cuda:0")
    assert celery_worker._serve_card(plan, Settings.read(home=tmp_path), QUIET) == status


def test_a_worker_ends_without_its_processes(on_redis: Field) -> None:
    assert on_redis.act("fails", concurrency=2).wait(120) == 1
    said = on_redis.log.read_text()
    assert "this process can't begin: the worker ends" in said
    assert "BadInput: the graph can't be loaded here" in said


def test_a_signal_is_handled_while_all_lanes_are_busy(tmp_path: Path) -> None:
    """The signal comes to another thread, as one that comes just before the wait: neither interrupts the wait."""
    pool = celery_worker._Pool(WorkerPlan("any", None, "cpu", 1), Settings.read(tmp_path), QUIET)
    lane: Any = object()
    handled = threading.Event()
    seen: list[bool] = []

    def work() -> None:
        time.sleep(0.3)  # until the main thread waits, which it can't say
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        seen.append(handled.wait(20))
        pool._free.put(lane)

    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    try:
        threading.Thread(target=work).start()
        assert pool._next_free_lane() is lane
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [True]


def test_what_an_encoder_says_while_it_is_opened_is_logged(
    default_folder: ModelFolder, caplog: Log, monkeypatch: Patch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))  # another test's cache may have a build for cards
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    monkeypatch.setattr("encoders.console._warned", set())
    with caplog.at_level(logging.INFO, "dragoman.worker"):
        celery_worker._load(WorkerPlan(str(default_folder.path), None, "auto"), 1)
    assert "works on the CPU: it is in int8, which cards can't run" in caplog.text


def _bad_once(file: Path, *, kill: bool) -> int:
    """Fail or be killed in the first process, end well in the second."""
    if file.exists():
        return 0
    file.touch()
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    return 3


def _until_sigterm(file: Path) -> int:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    file.touch()
    while not ended.wait(0.1):
        pass
    return 0


def _loading(file: Path) -> int:
    """Work that has no handler of signals yet."""
    file.touch()
    time.sleep(600)
    return 0


def test_a_process_that_fails_or_is_killed_is_started_again(tmp_path: Path) -> None:
    work = {f"cuda:{kill:d}": partial(_bad_once, tmp_path / f"{kill}", kill=kill) for kill in (False, True)}
    assert run_for_each_card(work, pause=0.1) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"False", "True"}


def test_a_signal_ends_all_and_what_waits_to_be_started_again(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second", tmp_path / "loading"]
    work = {f"cuda:{number}": partial(_until_sigterm, file) for number, file in enumerate(files)}
    work["cuda:2"] = partial(_loading, files[2])

    def end_when_begun() -> None:
        while not all(file.exists() for file in files):
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    before, thread = signal.getsignal(signal.SIGTERM), threading.Thread(target=end_when_begun)
    thread.start()
    start = time.monotonic()
    assert run_for_each_card({**work, "cuda:3": partial(int, PERMANENT)}, pause=600.0) == 1
    thread.join()
    assert time.monotonic() - start < 60
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def busy(on_redis: Field) -> Field:
    on_redis.begin(3)
    return on_redis


@pytest.fixture
def wide(on_redis: Field) -> Field:
    on_redis.begin(200)
    return on_redis


def owners(field: Field) -> set[str | None]:
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
    [*((signal.SIGTERM, processes, lanes) for processes, lanes in ((1, 1), (2, 1), (1, 2))), (signal.SIGHUP, 0, 1)],
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
    until(lambda: wide.states() == ["done"])
    assert (wide.notes(), wide.size()) == ([], 200)


def test_a_document_that_kills_its_workers_is_found_and_refused(on_redis: Field) -> None:
    """A real SIGKILL of the process that encodes, time after time; Celery starts another."""
    many = records(2)
    many[1]["text"] = "it kills"
    on_redis.write(many)
    on_redis.spool()
    worker = on_redis.act("kills", concurrency=2, lease=1.0)
    until(lambda: on_redis.states() == ["done"], 240)
    worker.terminate()
    assert worker.wait(60) == 0
    (note,) = on_redis.notes()
    assert (note.doc_id, note.text) == ("d0001", f"it can't be encoded: {DIED}")
    assert on_redis.size() == 1


def test_a_killed_worker_s_successor_goes_on_inside_a_long_document(on_redis: Field) -> None:
    on_redis.write([{"id": "book", "lang": "en", "text": "word" * 75_000}])
    on_redis.spool()
    on_redis.act("tires", concurrency=2, lease=1.0)
    until(lambda: on_redis.states() == ["done"], 120)
    assert (on_redis.settings.home / "batches").read_text() == "0 1 2 3 4 5 "
    assert (on_redis.notes(), on_redis.size()) == ([], 1)
    assert not on_redis.settings.checkpoints("c").exists()


STOPPED = "a worker stopped for longer than its lease"
COMMON = ("a worker killed", "the database killed", "messages dropped", STOPPED, "the broker killed")
CLOCKED = ("a worker's", "the broker's", "the database's", "the publisher's", "Elasticsearch's")
CLOCKS = ("the database's clock set back, and a worker killed", *(f"{whose} clock set" for whose in CLOCKED))


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
    with installed(running_servers(broker)) as servers:
        outcomes = Trial(servers, tmp_path, 640, seed=1, name=f"trial-{broker}-{lanes}", lanes=lanes).run(kinds)
    assert (fallen(outcomes), len(outcomes)) == ([], len(kinds))


def test_on_rabbitmq_a_queue_is_a_quorum_queue(rabbitmq: RabbitServer) -> None:
    """Which the broker says when the same name is declared as of the other kind."""
    model = f"model-{uuid.uuid4().hex[:8]}"
    Hints(rabbitmq.url).send(model, [(1, 0)])
    declared = {"durable": True, "auto_delete": False, "arguments": {"x-queue-type": "classic"}}
    with (
        Connection(rabbitmq.url) as connection,
        pytest.raises(connection.channel_errors, match="inequivalent arg 'x-queue-type'") as refused,
    ):
        connection.channel().queue_declare(queue_of(model), **declared)
    assert getattr(refused.value, "reply_code", 0) == 406


POISON = [
    *((body, {"task": TASK, "id": "1"}) for body in ("[]", "[[], {}]", '[[1], {}, {"chord": 5}]', "{broken")),
    ('[["a", "b", "c"], {}, {}]', {"task": TASK, "id": "1"}),
    ("[]", {"task": "nobody.knows", "id": "1"}),
    ("null", {}),
    ("[[1, 2], {}, {}]", {"task": [1], "id": {"a": 5}, "eta": "never"}),
]

NO_MESSAGES = ["hello", "5", "{}", "[1]", '{"properties": 3}', b"\xff\x00"]


@pytest.mark.parts
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_bad_messages_count_and_end_no_worker(broker: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue(broker).url
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", url, tmp_path)) as field:
        worker = field.act("well", lease=30.0)
        until(lambda: bool(alive(field.engine)))
        with Connection(url) as connection, connection.Producer() as producer:
            for body, headers in POISON:
                producer.publish(
                    body, declare=[queue(url, field.model)], routing_key=queue_of(field.model), exchange="dragoman",
                    content_type="application/json", content_encoding="utf-8", headers=headers,
                )  # fmt: skip
            if broker == "redis":
                for item in NO_MESSAGES:
                    connection.default_channel.client.lpush(queue_of(field.model), item)
        field.begin(2)
        until(lambda: field.states() == ["done"] or worker.poll() is not None)
        assert worker.poll() is None, field.log.read_text()
        until(lambda: Hints(url).waiting(field.model) == 0)
        unread = len(POISON) + (len(NO_MESSAGES) if broker == "redis" else 0)
        until(lambda: sum(one.unread for one in alive(field.engine)) >= unread)
        worker.terminate()
        assert worker.wait(60) == 0


def test_a_worker_makes_no_queues_but_its_own_and_logs_json_lines_only(rabbitmq: RabbitServer, tmp_path: Path) -> None:
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", rabbitmq.url, tmp_path)) as field:
        field.begin(3)
        worker = field.act("well", lease=4.0, json=True)
        until(lambda: field.states() == ["done"])
        queues = rabbitmq.control("list_queues", "name").split()
        worker.terminate()
        assert worker.wait(60) == 0
        assert queue_of(field.model) in queues
        assert [name for name in queues if "celery_delayed" in name] == []
        events = [json.loads(line) for line in field.log.read_text().splitlines()]
        assert {event["logger"] for event in events} == {"dragoman.worker"}
        assert any(event["event"] == "3 documents stored, 0 refused" for event in events)


@pytest.mark.long
def test_a_rabbitmq_without_memory_is_said_to_take_no_messages(monkeypatch: Patch) -> None:
    """A RabbitMQ for this test alone: until it has memory again it takes nobody's messages."""
    model = f"model-{uuid.uuid4().hex[:8]}"
    with installed(running(RabbitServer)) as rabbitmq:
        sender = Hints(rabbitmq.url)
        sender.send(model, [(1, 0)])
        rabbitmq.control("set_vm_memory_high_watermark", "0.00001")
        started = time.monotonic()
        with monkeypatch.context() as quick:
            quick.setattr(hints, "_CONFIRM_SECONDS", 1)
            with pytest.raises(StoreError, match=r"takes no messages; see whether it has memory and disk") as refused:
                sender.send(model, [(1, 1), (1, 2)])
        assert time.monotonic() - started < 45
        assert "guest" not in str(refused.value)
        rabbitmq.control("set_vm_memory_high_watermark", "0.4")
        sender.send(model, [(1, 3)])
        assert sender.waiting(model) >= 2


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqp://u:secret@127.0.0.1:{port}//", "the broker amqp://127.0.0.1:{port}// can't be reached"),
        ("redis://:secret@127.0.0.1:{port}/0", "the broker redis://127.0.0.1:{port}/0 can't be"),
        ("redis://127.0.0.1:{port}", "the broker redis://127.0.0.1:{port} can't be reached"),
        *(
            (f"amqp://u:{rest}//", "the broker's URL can't be read")
            for rest in (
                "secret@127.0.0.1:secret",
                *(f"{word}secret@127.0.0.1:{{port}}" for word in ("a/", "12/", "a#")),
            )
        ),
        ("redis://:12?secret@127.0.0.1:{port}/0", "the broker's URL can't be read"),
        ("redis://127.0.0.1:{port}/0?password=secret", "the broker's URL can't be read"),
        ("redis://:secret@127.0.0.1:{port}/secret", "Redis' database as a number"),
        ("kafka:secret@127.0.0.1:{port}", "the broker must be RabbitMQ or Redis, which are known to keep messages"),
    ],
)
def test_an_unreachable_broker_is_said_without_a_password(url: str, told: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(hints, "_CONNECT_RETRIES", 1)
    port = free_port()
    with pytest.raises((BadInput, StoreError), match=r"give |the same command goes on") as refused:
        Hints(url.format(port=port)).waiting("model")
    assert told.format(port=port) in str(refused.value)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None or "secret" not in str(refused.value.__cause__)
