"""Cost of workers: two of them against one process, ledger and queue per chunk, and a claim among a million chunks."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from benchmarks import harness
from encoders.console import Console
from encoders.methods.method_registry import open_encoder
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.ledger.database import connect, open_engine, upgrade
from indexer.ledger.ledger import Ledger
from indexer.readers.source import ReadOptions
from indexer.workers import registry
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.handout import hand_out_sources
from indexer.workers.hints import Hints
from indexer.workers.leases import Leases
from indexer.workers.progress import run_progress
from indexer.workers.registry import Identity
from indexer.workers.shutdown import StopSignal
from indexer.workers.sweeps import send_hints
from indexer.workers.worker_metrics import Metrics
from onnx_export.models import DEFAULT, find_model
from trials import ROOT
from trials.command import DRAGOMAN, environment_of
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.servers.rabbitmq import RabbitServer

_CHUNKS = 1_000_000
_CLAIMS = 400
_MESSAGES = 500


class _Steps(Metrics):
    """Seconds of each step, an entry for each chunk."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def spent(self, step: str, started: float) -> float:
        now = time.perf_counter()
        self.seconds[step].append(now - started)
        return now


def write_pages(folder: Path, documents: int) -> str:
    """Write the same number of help pages in each of nine languages; returns the file's name."""
    records = (
        {"id": record["id"], "lang": lang, "text": record["text"]}
        for lang in harness.LANGUAGES
        for record in harness.read("lohelp", lang, documents // len(harness.LANGUAGES))
    )
    return harness.write_records(records, folder / "pages.jsonl")


def claims(database: str) -> dict[str, list[float]]:
    """Seconds of taking a named chunk, and the next free chunk, among a million of which half are done."""
    engine = connect(database)
    ledger = Ledger.open(engine, "claims", ["x"], "x", "model", "build", spooled=True)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO chunks (run_id, number, state, documents, todo, wanted, digest, updated) "
                "SELECT :run, n, CASE WHEN n < :half THEN 'done' ELSE 'pending' END, 64, :todo, 64, '', now() "
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


class Race:
    """The same pages by one process with two threads, and by two workers of one thread each."""

    def __init__(self, source: str, folder: Path, database: str, broker: str) -> None:
        self.source, self.rounds = source, 0
        self.documents = len(Path(source).read_text(encoding="utf-8").splitlines())
        self.settings = Settings.read(folder / "home", database=database, broker=broker)
        self.engine = connect(database)
        self.hints = Hints(broker)
        self.encoder = open_encoder(find_model(DEFAULT, Console(quiet=True)), device="cpu")
        self.model = self.encoder.spec.model

    def alone(self) -> float:
        """Seconds of one process."""
        self.rounds += 1
        name = f"alone{self.rounds}"
        with closing(StoreLocation(self.settings.store, name).open()) as store:
            return pipeline.index([self.source], ReadOptions(), self.encoder, store, self.engine, name).seconds

    def together(self) -> float:
        """Seconds of two workers, with the reading and spooling of the sources."""
        with harness.Stopwatch() as watch:
            run_id = self._begin(f"together{self.rounds}")
            send_hints(self.engine, self.hints, self.model)
            while (progress := run_progress(self.engine, run_id)).done < progress.documents:
                time.sleep(0.05)
        return watch.seconds

    def _begin(self, name: str) -> int:
        collections.register(self.engine, name, self.settings, DEFAULT, self.encoder.spec)
        with closing(StoreLocation(self.settings.store, name).open()) as store:
            return hand_out_sources(
                [self.source], ReadOptions(), self.encoder.spec, store, self.engine, name,
                console=Console(quiet=True),
            ).run.id  # fmt: skip

    def steps(self) -> dict[str, list[float]]:
        """Seconds of each step of a chunk, in one worker."""
        metrics = _Steps()
        identity = Identity("bench", "here", "cpu", self.model, self.encoder.spec.build)
        engine = connect(self.settings.database)
        run_id = self._begin("steps")
        worker = ChunkWorker(self.encoder, engine, self.settings, self.hints, identity, 60.0, StopSignal(1.0), metrics)
        while worker.work(run_id, 0):
            pass
        worker.close()
        return metrics.seconds

    def check(self) -> None:
        """Check that every store has every page, with the same vectors: otherwise the times mean nothing.

        Raises:
            RuntimeError: a store differs.
        """
        expected = self._contents("alone1")
        names = ["steps", *(f"{kind}{number + 1}" for kind in ("alone", "together") for number in range(self.rounds))]
        wrong = [name for name in names if self._contents(name) != expected]
        if wrong or len(expected) != self.documents:
            raise RuntimeError(f"{', '.join(wrong) or 'alone1'}: not what was to be indexed; the times say nothing")

    def _contents(self, name: str) -> dict[str, bytes]:
        with closing(StoreLocation(self.settings.store, name).open(make=False)) as store:
            return {item.document.doc_id: item.vector.tobytes() for page in store.scan(self.model) for item in page}

    def messages(self) -> float:
        """Seconds of a message through the broker and Celery, with its query of the ledger."""
        self.hints.send(self.model, [(10**6, number) for number in range(_MESSAGES)])
        with harness.Stopwatch() as watch:
            waiting = self.hints.waiting(self.model)
            while self.hints.waiting(self.model):
                time.sleep(0.05)
        return watch.seconds / waiting


def _workers(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [*DRAGOMAN, "worker", "--concurrency", "2", "--device", "cpu"],
            stdout=out, stderr=out, env=environment_of(settings), cwd=ROOT,
        )  # fmt: skip


def race(documents: int, rounds: int, folder: Path, database: str, broker: str) -> list[str]:
    """Lines of the section."""
    race = Race(write_pages(folder, documents), folder, database, broker)
    steps = race.steps()
    workers = _workers(race.settings, folder / "log")
    try:
        while len(registry.alive(race.engine, race.model)) < 2:
            time.sleep(0.2)
        message = race.messages()
        alone, together = [], []
        for _ in range(rounds):
            alone.append(race.alone())
            together.append(race.together())
        race.check()
    finally:
        workers.terminate()
        workers.wait()
        race.engine.dispose()
    ledger = sum(statistics.mean(steps[step]) for step in ("claim", "read", "mark"))
    chunk = ledger + sum(statistics.mean(steps[step]) for step in ("encode", "put"))
    return [
        f"{documents:,} help pages, embedded store, ledger on PostgreSQL, messages by RabbitMQ. Two workers of one "
        f"thread against one process with two: throughput × {harness.ratio(alone, together)}.",
        "",
        f"A chunk takes {chunk:.2f} s in one worker; its ledger and spool {1000 * ledger:.1f} ms of it, its message "
        f"{1000 * message:.1f} ms more: {100 * (ledger + message) / chunk:.1f} %.",
    ]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1152)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-workers-")))
        postgres = stack.enter_context(running(PostgresServer))
        engine = open_engine(postgres.url)
        upgrade(engine)
        engine.dispose()
        seconds = claims(postgres.url)
        rabbit = stack.enter_context(running(RabbitServer))
        lines = race(arguments.documents, arguments.rounds, folder, postgres.url, rabbit.url)
    harness.write(
        "Workers",
        harness.command("workers", arguments, "documents", "rounds"),
        [
            *lines,
            "",
            f"Taking a chunk among {_CHUNKS:,} on PostgreSQL, half of them done: {_shown(seconds)}.",
        ],
    )


def _shown(seconds_by_kind: dict[str, list[float]]) -> str:
    return ", ".join(
        f"the {kind} one {1000 * statistics.median(seconds):.1f} ms (95 %: {1000 * np.percentile(seconds, 95):.1f} ms)"
        for kind, seconds in seconds_by_kind.items()
    )


if __name__ == "__main__":
    main()
