"""Cost of workers: two of them against one process, ledger and queue per chunk, and a claim among a million chunks."""

import json
import re
import subprocess
import tempfile
import time
import urllib.request
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import sqlalchemy as sa

from benchmarks import harness
from encoders.document import Document
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, open_engine, upgrade
from indexer.ledger.ledger import Ledger
from indexer.workers import registry
from indexer.workers.hints import Hints
from indexer.workers.leases import Leases
from trials import ROOT
from trials.command import DRAGOMAN, environment_of
from trials.documents import contents, write_records
from trials.servers.postgres import PostgresServer
from trials.servers.process import free_port, running
from trials.servers.rabbitmq import RabbitServer

_CHUNKS = 1_000_000
_CLAIMS = 400
_MESSAGES = 500


def write_pages(pages: Sequence[Document], copies: int, folder: Path) -> str:
    """Write copies of pages, each with an id of its own; returns the file's name."""
    records = (
        {"id": f"{page.doc_id}-{copy}", "lang": page.lang, "title": page.title, "text": page.text}
        for copy in range(copies)
        for page in pages
    )
    return write_records(records, folder / "pages.jsonl")


def claims(database: str) -> dict[str, list[float]]:
    """Seconds of taking a named chunk, and the next free chunk, among a million of which half are done."""
    engine = open_engine(database)
    upgrade(engine)
    ledger = Ledger.open(engine, "claims", ["x"], "x", "model", "build", spooled=True)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO chunks (run_id, number, state, documents, todo, wanted, digest, updated, until, "
                "attempts, error) SELECT :run, n, CASE WHEN n < :half THEN 'done' ELSE 'pending' END, 64, :todo, 64, "
                "'', now(), 0, 0, '' "
                "FROM generate_series(0, :last) AS n"
            ),
            {"run": ledger.run.id, "half": _CHUNKS // 2, "last": _CHUNKS - 1, "todo": bytes([1]) * 64},
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE chunks"))
    ledger.start_workers()
    leases = Leases(engine, "w", "model", "build", 60.0)
    seconds: dict[str, list[float]] = {"named": [], "next": []}
    for claim in range(_CLAIMS):
        for kind, number in (("named", _CHUNKS - 1 - claim), ("next", 0)):
            with harness.Stopwatch() as watch:
                lease = leases.take(ledger.run.id, number)
            seconds[kind].append(watch.seconds)
            assert lease is not None
    ledger.abandon()
    engine.dispose()
    return seconds


def index(settings: Settings, source: str, name: str) -> float:
    """Seconds of indexing, by workers where the settings have a broker; a process's start and its end do not count."""
    command = [*DRAGOMAN, "index", source, "-c", name, "--no-calibration", "--device", "cpu", "--json", "-q"]
    done = subprocess.run(command, env=environment_of(settings), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(json.loads(done.stdout.splitlines()[0])["seconds"])


@contextmanager
def working(command: Sequence[str], processes: int, settings: Settings, **own: str) -> Iterator[None]:
    """A worker that is ready; afterwards it is asked to end. ``own`` are variables of its environment."""
    command = [*command, "-q", "--concurrency", str(processes)]
    engine = open_engine(settings.database)
    upgrade(engine)
    with subprocess.Popen(command, env={**environment_of(settings), **own}, cwd=ROOT) as worker:
        try:
            while len({lane.id.rpartition("-")[2][:6] for lane in registry.alive(engine)}) < processes:  # by lanes
                if worker.poll() is not None:
                    raise RuntimeError("the worker has ended")
                time.sleep(0.2)
            yield
        finally:
            worker.terminate()
            engine.dispose()


def message_seconds(broker: str, model: str) -> float:
    hints = Hints(broker)
    hints.send(model, [(10**6, number) for number in range(_MESSAGES)])
    with harness.Stopwatch() as watch:
        waiting = hints.waiting(model)
        while hints.waiting(model):
            time.sleep(0.05)
    return watch.seconds / waiting


def step_seconds(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    values = dict(re.findall(r'^dragoman_step_seconds_((?:sum|count)\{step="\w+"\}) (\S+)$', text, re.MULTILINE))
    return {
        name: float(values[f'sum{{step="{name}"}}']) / float(values[f'count{{step="{name}"}}'])
        for name in ("claim", "read", "mark", "encode", "put")
    }


def race(documents: int, rounds: int, folder: Path, database: str, broker: str) -> list[str]:
    """Lines of the section: the same pages by one process with two threads, and by two workers of one thread each."""
    source, port = write_pages(harness.help_pages(documents // len(harness.LANGUAGES)), 1, folder), free_port()
    by_workers = Settings.read(folder / "home", database=database, broker=broker)
    by_process = Settings.read(folder / "alone")
    alone = [index(by_process, source, "round0")]
    with open_database(by_process.database) as engine:
        model = collections.require(engine, "round0").model
    worker = [*DRAGOMAN, "worker", "--device", "cpu", "--metrics-port", str(port)]
    with working(worker, 2, by_workers):
        message = message_seconds(broker, model)
        together = [index(by_workers, source, "round0")]
        for number in range(1, rounds):
            alone.append(index(by_process, source, f"round{number}"))
            together.append(index(by_workers, source, f"round{number}"))
        steps = step_seconds(port)
    expected = contents(by_process, "round0")
    for number in range(rounds):
        if len(expected) != documents or contents(by_workers, f"round{number}") != expected:
            raise RuntimeError(f"round {number} is not what was to be indexed; the times say nothing")
    ledger = steps["claim"] + steps["read"] + steps["mark"]
    chunk = ledger + steps["encode"] + steps["put"]
    return [
        f"{documents:,} help pages, embedded store, ledger on PostgreSQL, messages by RabbitMQ. Two workers of one "
        f"thread against one process with two: throughput × {harness.ratio(alone, together)}.",
        "",
        f"A chunk takes {chunk:.2f} s in a worker; its ledger and spool {1000 * ledger:.1f} ms of it, its message "
        f"{1000 * message:.1f} ms more: {100 * (ledger + message) / chunk:.1f} %.",
    ]


@harness.benchmark("Workers", documents=1152, rounds=3)
def measure(arguments: Namespace) -> list[str]:
    with running(PostgresServer) as postgres, tempfile.TemporaryDirectory(prefix="dragoman-workers-") as folder:
        seconds = claims(postgres.url)
        with running(RabbitServer) as rabbit:
            lines = race(arguments.documents, arguments.rounds, Path(folder), postgres.url, rabbit.url)
    shown = ", ".join(
        f"the {kind} one {1000 * median(taken):.1f} ms (95 %: {1000 * np.percentile(taken, 95):.1f} ms)"
        for kind, taken in seconds.items()
    )
    return [*lines, "", f"Taking a chunk among {_CHUNKS:,} on PostgreSQL, half done: {shown}."]
