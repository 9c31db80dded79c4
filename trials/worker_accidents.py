"""Accidents to an index run of many workers: whatever is killed, stopped, lost or doubled, the store ends the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from kombu import Connection

from encoders.errors import StoreError
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.index import index
from indexer.ledger import index_runs, tables
from indexer.ledger.database import connect, open_engine, transaction, upgrade
from indexer.ledger.tables import DONE, LEASED, READING, RUNNING, Chunk
from indexer.workers.hints import Hints, queue_of
from trials import ROOT
from trials.documents import contents, findings, poison, sentences
from trials.servers.elastic import ElasticServer
from trials.servers.postgres import PostgresServer
from trials.servers.process import ServerProcess
from trials.servers.rabbitmq import RabbitServer
from trials.servers.redis import RedisServer

WORKERS = 2
PUBLISHER = "the publisher killed"
LEASE = 3.0
BROKERS: dict[str, Callable[[Path], RabbitServer | RedisServer]] = {"rabbitmq": RabbitServer, "redis": RedisServer}
T = TypeVar("T")
_HOUR_FAST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += 3600;
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec; now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""
"""Preloaded, it lets a process live an hour ahead; libfaketime does the same, and breaks Python's sleep."""


@dataclass
class Servers:
    """What a run of workers stands on."""

    broker: RabbitServer | RedisServer
    database: PostgresServer
    elastic: ElasticServer


@dataclass
class Outcome:
    """What a trial came to.

    Attributes:
        happened: accidents by kind, those alone that hit something.
        lost: ids that are not in the store.
        doubled: documents that are there too often, or should not be.
        different: ids whose text, vector or passages are not byte for byte those of an undisturbed run.
        findings: what only one of the two runs refused or remarked, or oftener than the other.
        seconds: from the first message to the end.
    """

    happened: Counter[str]
    lost: list[str] = field(default_factory=list)
    doubled: int = 0
    different: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether nothing is other than an undisturbed run leaves it."""
        return not (self.lost or self.doubled or self.different or self.findings)


@dataclass(frozen=True)
class Busy:
    """A worker that has a chunk.

    Attributes:
        name: its process's, among those of the trial.
        worker: its id.
        chunk: run and number.
    """

    name: str
    worker: str
    chunk: tuple[int, int]


class Trial:
    """A run of workers, and what befalls it."""

    def __init__(
        self, servers: Servers, folder: Path, documents: int, seed: int, concurrency: int = 1, name: str = "trial"
    ) -> None:
        """Write a source; the workers are not started yet."""
        self.servers, self.folder, self.chance = servers, folder, random.Random(seed)
        self.concurrency, self.name = concurrency, name
        self.source = folder / "docs.jsonl"
        self.documents, self.revision, self._before = documents, 0, 0
        self._write()
        self._clock = folder / "clock.so"
        compiler = ["gcc", "-shared", "-fPIC", "-x", "c", "-o", str(self._clock), "-", "-ldl"]
        subprocess.run(compiler, input=_HOUR_FAST.encode(), check=True)
        prefix = f"accidents-{seed}-{os.getpid()}"
        self.settings = Settings.read(
            folder / "home", f"{servers.elastic.url}/{prefix}?replicas=0", servers.database.url, servers.broker.url
        )
        self.engine = open_engine(servers.database.url)
        upgrade(self.engine)
        self.hints = Hints(servers.broker.url)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.model = ""

    def accidents(self) -> dict[str, Callable[[], bool]]:
        """What can happen, by name; each says whether it hit something."""
        return {
            "a worker killed": self._kill_a_worker,
            "a worker stopped for longer than its lease": self._stop_a_worker,
            "a worker asked to end": self._ask_a_worker_to_end,
            PUBLISHER: self._kill_the_publisher,
            "the broker killed": lambda: self._restart(self.servers.broker),
            "the database killed": lambda: self._restart(self.servers.database),
            "Elasticsearch killed": lambda: self._restart(self.servers.elastic),
            "messages dropped": self._drop_messages,
            "messages doubled": self._double_messages,
        }

    def run(self, kinds: Sequence[str], pause: tuple[float, float]) -> Outcome:
        """Let workers index while accidents of these kinds happen, one after the other; then compare.

        One that hits nothing does not count and is tried again later. Should they be done before all have happened,
        every document gets another text and revision, and it begins anew.

        Args:
            kinds: names of accidents, in their order.
            pause: fewest and most seconds between two.
        """
        happened: Counter[str] = Counter()
        started = time.monotonic()
        try:
            left = list(kinds)
            while left or not self._is_done():
                if self._is_done():
                    self._change_everything()
                self._keep_alive()
                kind = self._next(left)
                if kind != PUBLISHER:
                    time.sleep(self.chance.uniform(*pause))
                if kind is None:
                    continue
                left.remove(kind)
                if self.accidents()[kind]():
                    happened[kind] += 1
                else:
                    left.append(kind)
            seconds = time.monotonic() - started
        finally:
            for process in self.processes.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        try:
            return self._compared(Outcome(happened, seconds=seconds))
        finally:
            self.engine.dispose()

    def _next(self, left: Sequence[str]) -> str | None:
        """The next accident: the publisher's while it reads, for that is soon over."""
        if not self._is_begun():
            return PUBLISHER if PUBLISHER in left else None
        return next((kind for kind in left if kind != PUBLISHER), None)

    def _write(self) -> None:
        lines = [json.dumps(line).encode() for line in sentences(self.documents, self.revision)]
        bad = poison(self.revision)
        every = max(1, len(lines) // len(bad))
        for number, line in enumerate(bad):
            lines.insert(number * (every + 1), line)
        self.source.write_bytes(b"".join(line + b"\n" for line in lines))

    def _change_everything(self) -> None:
        run = self._patient(self._run)
        self._before = run.id if run else 0
        self._kill("publisher")  # it looks on at the run that is done
        self.revision += 1
        self._write()

    def _keep_alive(self) -> None:
        """What a service manager does, and a user who gives the command again."""
        for number in range(WORKERS):
            self._ensure(f"worker-{number}", self._worker_command(), an_hour_off=number == 1)
        if not self._is_begun():
            self._ensure(
                "publisher", [*_DRAGOMAN, "index", str(self.source), "-c", self.name, "--no-calibration", "-q"]
            )

    def _worker_command(self) -> list[str]:
        return [
            *_DRAGOMAN, "worker", "--lease", str(LEASE), "--grace", "2", "--device", "cpu",
            "--concurrency", str(self.concurrency),
        ]  # fmt: skip

    def _ensure(self, name: str, command: Sequence[str], *, an_hour_off: bool = False) -> None:
        process = self.processes.get(name)
        if process is not None and process.poll() is None:
            return
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DRAGOMAN_HOME": str(self.settings.home),
            "DRAGOMAN_STORE": self.settings.store,
            "DRAGOMAN_DATABASE": self.settings.database,
            "DRAGOMAN_BROKER": self.settings.broker,
        }
        if an_hour_off:
            environment["LD_PRELOAD"] = str(self._clock)
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=ROOT, start_new_session=True
            )

    def _run(self) -> tables.IndexRun | None:
        runs = index_runs.runs(self.engine, self.name)
        return runs[-1] if runs and runs[-1].id > self._before else None

    def _is_begun(self) -> bool:
        run = self._patient(self._run)
        return run is not None and run.state != READING

    def _is_done(self) -> bool:
        run = self._patient(self._run)
        if run is not None:
            self.model = run.model
        return run is not None and run.state == DONE

    def _is_at_work(self) -> bool:
        run = self._patient(self._run)
        return run is not None and run.state == RUNNING

    @staticmethod
    def _patient(ask: Callable[[], T]) -> T:
        for _ in range(50):
            with suppress(StoreError):
                return ask()
            time.sleep(0.2)
        return ask()

    def _some_busy_worker(self) -> Busy | None:
        """One that has a chunk now, and not one that loads its model or waits."""
        groups = {process.pid: name for name, process in self.processes.items() if process.poll() is None}
        busy = []
        for chunk in self._patient(self._leased):
            owner = chunk.owner or ""
            with suppress(ProcessLookupError):
                group = os.getpgid(int(owner.split("-")[-2]))
                if group in groups:
                    busy.append(Busy(groups[group], owner, (chunk.run_id, chunk.number)))
        return self.chance.choice(busy) if busy else None

    def _leased(self) -> list[Chunk]:
        with transaction(self.engine) as session:
            return list(session.scalars(sa.select(Chunk).where(Chunk.state == LEASED).order_by(Chunk.number)))

    def _has_its_chunk(self, busy: Busy) -> bool:
        return any(
            (chunk.run_id, chunk.number, chunk.owner) == (*busy.chunk, busy.worker)
            for chunk in self._patient(self._leased)
        )

    def _kill_a_worker(self) -> bool:
        busy = self._some_busy_worker()
        if busy is None:
            return False
        self._kill(busy.name)
        return self._has_its_chunk(busy)

    def _ask_a_worker_to_end(self) -> bool:
        busy = self._some_busy_worker()
        if busy is None or not self._has_its_chunk(busy):
            return False
        self.processes[busy.name].terminate()
        return True

    def _stop_a_worker(self) -> bool:
        busy = self._some_busy_worker()
        if busy is None:
            return False
        group = self.processes[busy.name].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            had = self._has_its_chunk(busy)
            if had:
                time.sleep(2 * LEASE)
        finally:
            os.killpg(group, signal.SIGCONT)
        return had

    def _kill_the_publisher(self) -> bool:
        """In the midst of the sources: after it has written a chunk more, before the run begins."""
        before = self._patient(self._chunks)
        publisher = self.processes["publisher"]
        while publisher.poll() is None and not self._is_begun():
            if self._patient(self._chunks) > before:
                self._kill("publisher")
                return not self._is_begun()
            time.sleep(0.002)
        return False

    def _chunks(self) -> int:
        run = self._run()
        if run is None:
            return 0
        with transaction(self.engine) as session:
            return session.scalar(sa.select(sa.func.count()).where(Chunk.run_id == run.id)) or 0

    def _kill(self, name: str) -> None:
        process = self.processes.get(name)
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _restart(self, server: ServerProcess | ElasticServer) -> bool:
        if not self._is_at_work():
            return False
        server.kill()
        time.sleep(self.chance.uniform(0.0, 2.0))
        server.start()
        return True

    def _drop_messages(self) -> bool:
        with suppress(OSError), Connection(self.servers.broker.url) as connection:
            return bool(connection.channel().queue_purge(queue_of(self.model)))
        return False

    def _double_messages(self) -> bool:
        run = self._patient(self._run)
        if run is None or run.state != RUNNING:
            return False
        with suppress(StoreError):
            self.hints.send(run.model, [(run.id, number) for number in range(50)] * 2)
            return True
        return False

    def _compared(self, outcome: Outcome) -> Outcome:
        alone = Settings.read(self.folder / "alone", str(self.folder / "alone" / "store"), _sqlite(self.folder))
        index([str(self.source)], self.name, settings=alone, device="cpu")
        expected, found = contents(alone, self.name), contents(self.settings, self.name)
        outcome.lost = sorted(expected.keys() - found.keys())
        outcome.different = sorted(one for one in expected.keys() & found.keys() if expected[one] != found[one])
        collection = collections.require(self.engine, self.name)
        store = collection.open_store(self.settings)
        outcome.doubled = sum(store.count().values()) - len(found) + len(found.keys() - expected.keys())
        store.close()
        undisturbed = connect(alone.database)
        said, expected_said = findings(self.engine, self.name), findings(undisturbed, self.name)
        undisturbed.dispose()
        outcome.findings = sorted(((said - expected_said) + (expected_said - said)).elements())
        return outcome


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'alone.db'}"


_DRAGOMAN = [sys.executable, "-m", "query.cli"]
