"""Accidents to an index run of many workers: the store must be the same, whatever is killed, lost or doubled."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np
import sqlalchemy as sa
from kombu import Connection

from encoders.errors import StoreError
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger import index_runs, tables
from indexer.ledger.database import open_database, open_engine, transaction, upgrade
from indexer.ledger.tables import DONE, LEASED, READING, RUNNING, Chunk
from indexer.workers.hints import Hints, queue_of
from trials import ROOT, patient
from trials.clock import Clock
from trials.command import DRAGOMAN, environment_of, fell
from trials.documents import Stored, contents, different, findings, poison, sentences
from trials.servers.elastic import BLOCK, ElasticServer, client_of
from trials.servers.postgres import PostgresServer
from trials.servers.process import ServerProcess, running
from trials.servers.rabbitmq import RabbitServer
from trials.servers.redis import RedisServer

WORKERS = 2
PUBLISHER = "the publisher killed"
LEASE = 3.0
BROKERS: dict[str, Callable[[Path], RabbitServer | RedisServer]] = {"rabbitmq": RabbitServer, "redis": RedisServer}
T = TypeVar("T")
_HOUR, _DAY = 3600, 86_400
_PAUSE = 0.2, 1.0  # minimum and maximum seconds between two accidents
_ENDS_WITHIN = 600.0
"""Seconds from the last accident in which a run must end; a chunk that stays leased for an hour shows by this."""


class Servers(NamedTuple):
    broker: RabbitServer | RedisServer
    database: PostgresServer
    elastic: ElasticServer

    def settings(self, home: Path, prefix: str) -> Settings:
        store = f"{self.elastic.url}/{prefix}?replicas=0"
        return Settings.read(home, store, self.database.url, self.broker.url)


@contextmanager
def running_servers(broker: str = "redis") -> Iterator[Servers]:
    """Servers in temporary folders, with one of ``BROKERS``; ``ServerMissing`` if one is not installed."""
    with running(BROKERS[broker]) as queue, running(PostgresServer) as database, running(ElasticServer) as elastic:
        yield Servers(queue, database, elastic)


_WITH_LANES = """
import sys
from encoders.console import Console
from indexer.collection.settings import Settings
from indexer.workers.celery_worker import WorkerPlan, serve
from onnx_export.models import DEFAULT

lease, lanes = float(sys.argv[1]), int(sys.argv[2])
plan = WorkerPlan(DEFAULT, None, "cpu", lease_seconds=lease, grace=2, lanes=lanes)
sys.exit(serve(plan, Settings.read(), Console()))
"""
"""A worker with as many lanes as on a card: the command takes them from the device."""


class BusyWorker(NamedTuple):
    """A worker that has a chunk: the trial's name of its process, and run, number and owner of the chunk."""

    name: str
    lease: tuple[int, int, str]


class Trial:
    """A run of workers, and the accidents that happen to it."""

    def __init__(
        self, servers: Servers, folder: Path, documents: int, seed: int, name: str = "trial", lanes: int = 1
    ) -> None:
        self.servers, self.folder, self.chance = servers, folder, random.Random(seed)
        self.name, self.lanes = name, lanes
        self.source = folder / "docs.jsonl"
        self.documents, self.revision, self._before = documents, 0, 0
        self._write()
        self._clocks = {name: Clock(folder, name) for name in ("publisher", "worker-0")}
        self._clocks["worker-1"] = Clock(folder, "worker-1", ahead=_HOUR)
        self.settings = servers.settings(folder / "home", f"accidents-{seed}-{os.getpid()}")
        self.engine = open_engine(servers.database.url)
        upgrade(self.engine)
        self.hints = Hints(servers.broker.url)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def accidents(self) -> dict[str, Callable[[], bool]]:
        """Accidents by kind; each returns whether it hit something. Clocks are set an hour or a day ahead, or back."""
        broker, database, elastic = self.servers
        of_workers: dict[str, Callable[[BusyWorker], bool]] = {
            "a worker killed": self._kill_a_worker,
            "a worker stopped for longer than its lease": self._stop_a_worker,
            "a worker asked to end": self._ask_a_worker_to_end,
            "a worker's clock set": self._set_a_worker_s_clock,
            "the database's clock set back, and a worker killed": self._set_back_and_kill,
        }
        of_a_run: dict[str, Callable[[], bool]] = {
            "the broker killed": partial(self._restart, broker),
            "the database killed": partial(self._restart, database),
            "Elasticsearch killed": partial(self._restart, elastic),
            "Elasticsearch stopped": partial(self._pause, elastic),
            "Elasticsearch's disk full": self._fill_the_disk,
            "messages doubled": self._double_messages,
            "the broker's clock set": lambda: self._set(broker.clock),
            "the database's clock set": lambda: self._set(database.clock),
            "Elasticsearch's clock set": lambda: self._set(elastic.clock),
        }
        return {
            **{kind: partial(self._with_a_worker, accident) for kind, accident in of_workers.items()},
            **{kind: partial(self._while_running, accident) for kind, accident in of_a_run.items()},
            PUBLISHER: self._kill_the_publisher,
            "the publisher's clock set": lambda: self._is_running("publisher") and self._set(self._clocks["publisher"]),
            "messages dropped": self._drop_messages,
        }

    def run(self, kinds: Sequence[str]) -> list[str]:
        """Let workers index while accidents of these kinds happen, one after the other; then compare.

        An accident that hits nothing does not count and is tried again later. If the run is done before all accidents
        have happened, every document gets another text and revision, and a new run begins. The outcome of an accident
        is what its run left otherwise than an undisturbed run of one process.
        """
        for server in self.servers if any("clock" in kind for kind in kinds) else ():
            server.kill()
            server.clock = Clock(server.folder)
            server.start()
        accidents = self.accidents()
        outcomes: list[str] = []
        waiting, happened, last = list(kinds), 0, time.monotonic()
        try:
            while waiting or self._state != DONE:
                if time.monotonic() - last > patient(_ENDS_WITHIN):
                    raise TimeoutError(f"no end {_ENDS_WITHIN:.0f} s after an accident; these are to happen: {waiting}")
                if self._state == DONE:
                    outcomes += [self._compare()] * happened
                    self._change_everything()
                    happened, last = 0, time.monotonic()
                self._keep_alive()
                reading = self._state == READING  # which is soon over: only the publisher's own accident can happen
                kind = next((kind for kind in waiting if (kind == PUBLISHER) == reading), None)
                if kind != PUBLISHER:
                    time.sleep(self.chance.uniform(*_PAUSE))
                if kind is None:
                    continue
                waiting.remove(kind)
                if accidents[kind]():
                    happened, last = happened + 1, time.monotonic()
                else:
                    waiting.append(kind)
            outcomes += [self._compare()] * happened
        finally:
            for name in self.processes:
                self._kill(name)
            self.engine.dispose()
        return outcomes

    def _write(self) -> None:
        lines = [json.dumps(line).encode() for line in sentences(self.documents, self.revision)]
        odd_lines = poison(self.revision)
        every = max(1, len(lines) // len(odd_lines))
        for number, line in enumerate(odd_lines):
            lines.insert(number * (every + 1), line)
        self.source.write_bytes(b"".join(line + b"\n" for line in lines))

    def _change_everything(self) -> None:
        run = self._run()
        self._before = run.id if run else 0
        self._kill("publisher")  # it still watches the run that is done
        self.revision += 1
        self._write()

    def _keep_alive(self) -> None:
        """Start what is not running, as a service manager does, and a user who gives the command again."""
        worker = [*DRAGOMAN, "worker", "--lease", f"{LEASE}", "--grace", "2", "--device", "cpu", "--concurrency", "1"]
        if self.lanes > 1:
            worker = [sys.executable, "-c", _WITH_LANES, f"{LEASE}", f"{self.lanes}"]
        for number in range(WORKERS):
            self._ensure(f"worker-{number}", worker)
        if self._state == READING:
            index = ["index", str(self.source), "-c", self.name, "--no-calibration", "-q", "--on-duplicate", "last"]
            self._ensure("publisher", [*DRAGOMAN, *index])

    def _ensure(self, name: str, command: Sequence[str]) -> None:
        if not self._is_running(name):
            environment = {**environment_of(self.settings), **self._clocks[name].environment}
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    command, stdout=log, stderr=log, env=environment, cwd=ROOT, start_new_session=True
                )

    def _is_running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def _run(self) -> tables.IndexRun | None:
        """The run of this revision, if there is one."""
        runs = _retry(lambda: index_runs.runs(self.engine, self.name))
        return runs[-1] if runs and runs[-1].id > self._before else None

    @property
    def _state(self) -> str:
        run = self._run()
        return run.state if run else READING

    def _draw_busy_worker(self) -> BusyWorker | None:
        groups = {process.pid: name for name, process in self.processes.items() if self._is_running(name)}
        busy = []
        for lease in sorted(self._leased()):
            with suppress(ProcessLookupError):
                group = os.getpgid(int(lease[2].split("-")[-2]))
                if group in groups:
                    busy.append(BusyWorker(groups[group], lease))
        return self.chance.choice(busy) if busy else None

    def _chunks(self, *condition: sa.ColumnElement[bool]) -> list[Chunk]:
        def read() -> list[Chunk]:
            with transaction(self.engine) as session:
                return list(session.scalars(sa.select(Chunk).where(*condition).order_by(Chunk.number)))

        return _retry(read)

    def _leased(self) -> set[tuple[int, int, str]]:
        return {(chunk.run_id, chunk.number, chunk.owner or "") for chunk in self._chunks(Chunk.state == LEASED)}

    def _with_a_worker(self, accident: Callable[[BusyWorker], bool]) -> bool:
        busy = self._draw_busy_worker()
        return busy is not None and accident(busy)

    def _kill_a_worker(self, busy: BusyWorker) -> bool:
        self._kill(busy.name)
        return busy.lease in self._leased()

    def _ask_a_worker_to_end(self, busy: BusyWorker) -> bool:
        held = busy.lease in self._leased()
        if held:
            self.processes[busy.name].terminate()
        return held

    def _stop_a_worker(self, busy: BusyWorker) -> bool:
        group = self.processes[busy.name].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            held = busy.lease in self._leased()
            time.sleep(2 * LEASE if held else 0)
        finally:
            os.killpg(group, signal.SIGCONT)
        return held

    def _kill_the_publisher(self) -> bool:
        """Kill the publisher while it reads: after it has written another chunk, before the run begins."""
        before = self._chunks(Chunk.run_id > self._before)
        while self._is_running("publisher") and self._state == READING:
            if len(self._chunks(Chunk.run_id > self._before)) > len(before):
                self._kill("publisher")
                return self._state == READING
            time.sleep(0.002)
        return False

    def _kill(self, name: str) -> None:
        if self._is_running(name):
            os.killpg(self.processes[name].pid, signal.SIGKILL)
            self.processes[name].wait()

    def _while_running(self, accident: Callable[[], bool]) -> bool:
        return self._state == RUNNING and accident()

    def _restart(self, server: ServerProcess) -> bool:
        server.kill()
        time.sleep(self.chance.uniform(0.0, 2.0))
        server.start()
        return True

    def _pause(self, server: ServerProcess) -> bool:
        server.pause()
        time.sleep(self.chance.uniform(0.5, 4.0))
        server.go_on()
        return True

    def _fill_the_disk(self) -> bool:
        """Set the block that the server sets when a disk is full, while a worker has a chunk that it can't store."""
        with client_of(self.servers.elastic.url) as client:
            indices = f"{urlsplit(self.settings.store).path[1:]}-*"
            client.indices.put_settings(index=indices, settings={BLOCK: True})
            before = self._leased()
            time.sleep(self.chance.uniform(1.0, 4.0))
            is_hit = bool(before & self._leased())
            client.indices.put_settings(index=indices, settings={BLOCK: None})
        return is_hit

    def _set(self, clock: Clock | None) -> bool:
        assert clock
        clock.set(self.chance.choice([ahead for ahead in (-_DAY, -_HOUR, 0, _HOUR, _DAY) if ahead != clock.ahead]))
        return True

    def _set_a_worker_s_clock(self, busy: BusyWorker) -> bool:
        return self._set(self._clocks[busy.name]) and busy.lease in self._leased()

    def _set_back_and_kill(self, busy: BusyWorker) -> bool:
        """Let a worker die and the clock that its lease is measured by go back: its chunk must be free soon."""
        clock = self.servers.database.clock
        assert clock
        if hit := self._kill_a_worker(busy):
            clock.set(clock.ahead - _HOUR)
        return hit

    def _drop_messages(self) -> bool:
        run = self._run()
        with suppress(OSError), Connection(self.servers.broker.url) as connection:
            return run is not None and bool(connection.channel().queue_purge(queue_of(run.model)))
        return False

    def _double_messages(self) -> bool:
        with suppress(StoreError):
            if run := self._run():
                self.hints.send(run.model, [(run.id, number) for number in range(50)] * 2)
                return True
        return False

    def _compare(self) -> str:
        """What the run left otherwise than an undisturbed run of one process.

        A chunk that fell five times is halved. So its batches are others, and its vectors may differ by rounding.
        """
        home = self.folder / f"alone-{self.revision}"
        alone = Settings.read(home, str(home / "store"), f"sqlite:///{home / 'dragoman.db'}")
        index([str(self.source)], self.name, settings=alone, device="cpu", on_duplicate="last")
        expected, actual = contents(alone, self.name), contents(self.settings, self.name)
        both = expected.keys() & actual.keys()
        actual |= {doc_id: expected[doc_id] for doc_id in both if _are_near(expected[doc_id], actual[doc_id])}
        wrong_documents, left = different(expected, actual), findings(self.engine, self.name)
        store_of_workers = closing(collections.require(self.engine, self.name).open_store(self.settings))
        with store_of_workers as store, open_database(alone.database) as engine:
            doubled, undisturbed = sum(store.count().values()) - len(actual), findings(engine, self.name)
        wrong = sorted(((left - undisturbed) + (undisturbed - left)).elements())
        said = f"{len(wrong_documents)} differ", wrong_documents[:3], f"{doubled} doubled", "findings", wrong[:3]
        return fell(*said, held=not wrong_documents and not wrong and not doubled)


def _are_near(expected: Stored, actual: Stored) -> bool:
    """Whether vectors alone differ, by 1e-6 at most; the vectors of two revisions differ by a thousandth."""
    one, other = (np.frombuffer(vector, dtype=np.float32) for vector in (expected[1], actual[1]))
    return expected[::2] == actual[::2] and expected[3] == actual[3] and np.allclose(one, other, rtol=0, atol=1e-6)


def _retry(read: Callable[[], T]) -> T:
    for _ in range(50):
        with suppress(StoreError):
            return read()
        time.sleep(0.2)
    return read()
