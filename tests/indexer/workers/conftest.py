"""A run of workers in this process, and processes of workers on a real broker."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoded, Encoder
from encoders.inference.session import GraphFailure
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing.duplicates import OnDuplicate
from indexer.ledger import index_runs
from indexer.ledger.database import connect, open_database, open_engine, upgrade
from indexer.ledger.findings import Finding, findings_of
from indexer.ledger.ledger import Ledger, ReadChunk
from indexer.ledger.tables import DONE, IndexRun
from indexer.readers.records.source import ReadOptions
from indexer.stores.contract import VectorStore
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.handout import hand_out_sources
from indexer.workers.hints import Hints
from indexer.workers.registry import Identity
from indexer.workers.run_watch import run_progress
from indexer.workers.shutdown import StopSignal
from indexer.workers.sweeps import sweep
from indexer.workers.worker_metrics import Metrics
from trials import ROOT
from trials.fake_encoder import FakeEncoder
from trials.servers.postgres import PostgresServer
from trials.servers.redis import RedisServer

E = TypeVar("E", bound=FakeEncoder)
QUIET = Console(quiet=True)


def _database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return new_database(request.getfixturevalue("postgres"))


database = pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])(_database)
either_database = pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.parts)])(_database)
"""For the contracts of the ledger and of leases, which ``make test`` tries on both."""


def new_database(server: PostgresServer) -> str:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.removesuffix("dragoman") + name


class Messages(Hints):
    """Messages to workers, kept in memory in place of a broker."""

    def __init__(self) -> None:
        self.chunks: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def send(self, model: str, chunks: Iterable[tuple[int, int]]) -> None:
        self.chunks[model] += chunks

    def waiting(self, model: str) -> int:
        return len(self.chunks[model])


class Field:
    """A collection ``c`` whose run is shared by workers of this process; processes of workers need a broker's URL."""

    def __init__(self, database: str, broker: str, tmp_path: Path, store: str | None = None) -> None:
        self.source = tmp_path / "docs.jsonl"
        self.settings = Settings.read(tmp_path / "home", database=database, broker=broker, store=store)
        self.engine: sa.Engine = open_engine(database)
        upgrade(self.engine)
        self.encoder = FakeEncoder()
        self.model = f"model-{uuid.uuid4().hex[:8]}"  # its queue is this test's own
        self.encoder.spec = type(self.encoder.spec)("fake", "segments", 8, (), self.model, "build-c")
        self.hints = Hints(broker) if broker else Messages()
        collections.register(self.engine, "c", self.settings, "fake", self.encoder.spec)
        self.store = StoreLocation(self.settings.store, "c").open()
        self.log = tmp_path / "log"
        self._workers: list[ChunkWorker] = []
        self._processes: list[subprocess.Popen[str]] = []

    def write(self, records: Sequence[dict[str, object]]) -> None:
        self.source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        os.utime(self.source, ns=(time.time_ns(), time.time_ns()))

    def spool(self, *, prune: bool = False, generation: int = 1, on_duplicate: OnDuplicate = "error") -> Ledger:
        return hand_out_sources(
            [str(self.source)], ReadOptions(), self.encoder.spec, self.store, self.engine, "c",
            prune=prune, generation=generation, on_duplicate=on_duplicate, console=QUIET,
        )  # fmt: skip

    def begin(self, count: int) -> int:
        """Hand out so many documents; returns the number of the run."""
        self.write(records(count))
        return self.spool().run.id

    def reading(self, *, prune: bool = False) -> Ledger:
        """A run whose sources are read: documents are handed out by ``plan``."""
        source = [str(self.source)]
        return Ledger.open(self.engine, "c", source, "mark", self.model, "build-c", spooled=True, prune=prune)

    def runs(self) -> list[IndexRun]:
        return index_runs.runs(self.engine, "c")

    def states(self) -> list[str]:
        return [run.state for run in self.runs()]

    def notes(self) -> list[Finding]:
        return findings_of(self.engine, [self.runs()[-1].id])

    def size(self) -> int:
        return sum(self.store.count().values())

    def chunks(self) -> dict[str, int]:
        return run_progress(self.engine, self.runs()[-1].id).chunks

    @contextmanager
    def alone(self) -> Iterator[tuple[VectorStore, sa.Engine]]:
        """Store and database of a home where one process works."""
        alone = Settings.read(home=self.source.with_name("alone"))
        with closing(StoreLocation(alone.store, "c").open()) as store, open_database(alone.database) as engine:
            yield store, engine

    def sweep(self, model: str = "", *, every: float = 0.0) -> list[int]:
        return sweep(self.engine, self.settings, self.hints, model or self.model, every=every)

    def worker(
        self, encoder: Encoder | None = None, *, lease: float = 60.0, metrics: Metrics | None = None
    ) -> ChunkWorker:
        encoder, name = encoder or self.encoder, f"worker-{len(self._workers)}"
        identity = Identity(name, "here", "cpu", encoder.spec.model, encoder.spec.build)
        engine, metrics = connect(self.settings.database), metrics or Metrics()
        made = ChunkWorker(encoder, engine, self.settings, self.hints, identity, lease, StopSignal(30), metrics)
        self._workers.append(made)
        return made

    def act(
        self, behaviour: str, *, concurrency: int = 0, grace: float = 30, lease: float = 60, lanes: int = 1,
        json: bool = False,
    ) -> subprocess.Popen[str]:  # fmt: skip
        """Start ``dragoman worker`` with an encoder that behaves so; what it says goes into ``log``."""
        places = {name: str(getattr(self.settings, name)) for name in ("home", "database", "broker", "store")}
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment |= {f"DRAGOMAN_{name.upper()}": place for name, place in places.items()}
        plan = [self.model, str(concurrency), str(grace), str(lease), str(lanes), *["json"] * json]
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.indexer.workers.acting", behaviour, *plan],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def like(self, kind: type[E]) -> E:
        made = kind()
        made.spec = self.encoder.spec
        return made

    def work_off(self, worker: ChunkWorker, run_id: int) -> None:
        """Until there is no chunk left to take."""
        while worker.work(run_id, 0):
            pass

    def end(self, encoder: FakeEncoder | None = None) -> None:
        self.work_off(self.worker(encoder), self.runs()[-1].id)
        self.sweep((encoder or self.encoder).spec.model)
        assert self.states()[-1] == DONE

    def close(self) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for worker in self._workers:
            worker.close()
        self.store.close()
        self.engine.dispose()


class Poisoned(FakeEncoder):
    """Breaks on some documents, each in its way."""

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        if any("breaks" in document.text for document in documents):
            raise ValueError("a graph that met a text it can't bear")
        if any("too much" in document.text for document in documents):
            raise GraphFailure("the graph can't be run over it")
        if any("no database" in document.text for document in documents):
            raise ValueError("at \0 and half of \ud83d, " + "x" * 10_000)
        encoded = super().encode_documents(documents)
        encoded.vectors[[at for at, document in enumerate(documents) if "nan" in document.text]] = np.nan
        return encoded


@pytest.fixture
def field(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    """A collection without a broker: a message is only a hint to look at the ledger."""
    made = Field(database, "", tmp_path)
    monkeypatch.setattr("indexer.workers.run_watch.Hints", lambda _: made.hints)
    yield made
    made.close()


@pytest.fixture
def on_redis(redis: RedisServer, tmp_path: Path) -> Iterator[Field]:
    """A collection for processes of workers: a real Redis, and the ledger on SQLite."""
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", redis.url, tmp_path)) as made:
        yield made


def records(count: int) -> list[dict[str, object]]:
    return [{"id": f"d{number:04d}", "lang": "en", "text": f"text {number}"} for number in range(count)]


def one_document(number: int, doc_id: str) -> ReadChunk:
    return ReadChunk(number, [Document(doc_id, "en", doc_id)], [], 1)
