"""What runs for long, or is used often in one process, uses no more of the machine after a while than before."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import httpx
from elasticsearch import Elasticsearch, helpers

from indexer.collection.settings import Settings
from indexer.index_sources import index
from query.ranking.searcher import Searcher
from trials.command import DRAGOMAN, environment_of, fell
from trials.documents import sentences
from trials.process_figures import BOUNDS, DESCRIPTORS, MEMORY, THREADS, Watched, sample, watching
from trials.servers.elastic import client_of
from trials.servers.postgres import PostgresServer
from trials.servers.process import ServerProcess, running
from trials.servers.redis import RedisServer
from trials.servers.service import process
from trials.soak import documents_of, make_index, train_encoders

_MEMORY_OF_SEARCHES = 30.0
"""MB that 3,000 further searches may take. The service keeps 4,096 vectors of queries, 6 MB of the default encoder."""
_WITHIN = 120.0
"""Seconds in which a process must do its next step."""


def alone(attack: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
    """The outcomes of an attack in a process of its own, in which nothing else takes memory, files or threads."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process_of_its_own:
        return process_of_its_own.submit(_outcomes, attack, *arguments).result()


def _outcomes(attack: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
    return list(attack(*arguments))


def searches(home: Path, further: int) -> Iterator[str]:
    """Search the collection ``demo`` in this process and by a service: ``further`` searches take little memory."""
    queries = [(str(record["lang"]), str(record["text"])) for record in sentences(further + further // 3)]
    begin, before = further // 3, 0.0
    with Searcher.open("demo", Settings.read(home=home), device="cpu") as searcher:
        for number, (lang, text) in enumerate(queries):
            if number == begin:
                before = _of_this_process()
            searcher.search(text, lang=lang)
    yield _not_above(f"{further} searches in a process", before, _of_this_process())
    with process(home) as (service, url), httpx.Client(base_url=url, timeout=60) as client:
        for number, (lang, text) in enumerate(queries):
            if number == begin:
                before = sample(service.pid)[MEMORY]
            question = {"query": text, "lang": lang, "collection": "demo"}
            client.post("/api/search", json=question).raise_for_status()
        yield _not_above(f"{further} searches by a service", before, sample(service.pid)[MEMORY])


def _of_this_process() -> float:
    gc.collect()
    return sample(os.getpid())[MEMORY]


def _not_above(what: str, before: float, after: float) -> str:
    return fell(what, f"{before:,.0f} MB, then {after:,.0f} MB", held=after <= before + _MEMORY_OF_SEARCHES)


def many_collections(folder: Path, collections: int) -> Iterator[str]:
    """Index, search and close collections in this process, one after the other."""
    encoder, _ = train_encoders(folder)
    settings, watched = Settings.read(home=folder / "home"), Watched()
    for number in range(collections):
        source = _source(folder, number, 20)
        index([str(source)], f"c{number}", settings=settings, encoder=str(encoder), device="cpu")
        with Searcher.open(f"c{number}", settings, device="cpu") as searcher:
            held = len(searcher.search("en001", lang="en", k=50)) == 20
            yield "" if held else f"collection {number} has not all its documents"
        gc.collect()
        watched.samples.append(sample(os.getpid()))
    yield from watched.grown({**BOUNDS, DESCRIPTORS: 2, THREADS: 1})


def _source(folder: Path, number: int, documents: int) -> Path:
    """A file of documents that differ for each number."""
    source = folder / "docs.jsonl"
    records = documents_of({str(doc): f"{number}" for doc in range(documents)})
    source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return source


@contextmanager
def _command(settings: Settings, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command as a process, which is killed at the end of the block if it still runs."""
    started = subprocess.Popen(
        [*DRAGOMAN, *arguments], env=environment_of(settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def _done(settings: Settings, *arguments: str) -> str:
    """Run a command to its end."""
    command = [*DRAGOMAN, *arguments, "-q"]
    done = subprocess.run(command, env=environment_of(settings), capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{arguments}: {done.returncode}, {done.stderr[-300:]}"


def _ended(what: str, command: subprocess.Popen[bytes], ask: int, statuses: Sequence[int]) -> str:
    """Ask a command to end, if ``ask`` is a signal; it ends with one of the statuses."""
    if command.poll() is None and ask:
        command.send_signal(ask)
    status = command.wait(_WITHIN)
    return "" if status in statuses else f"{what} ended with {status}"


def worker_and_watch(folder: Path, place: str, seconds: float) -> Iterator[str]:
    """Let a worker work on small runs, each of another collection; before, look for long at a run that nobody works on.

    Args:
        folder: an empty folder.
        place: URL of a place for stores in an Elasticsearch without security: a server and a prefix.
        seconds: of each.
    """
    encoder, _ = train_encoders(folder)
    with ExitStack() as stack:
        database: ServerProcess = stack.enter_context(running(PostgresServer))
        broker: ServerProcess = stack.enter_context(running(RedisServer))
        assert isinstance(database, PostgresServer)
        assert isinstance(broker, RedisServer)
        settings = Settings.read(folder / "home", f"{place}?replicas=0", database.url, broker.url)
        elastic = place.rpartition("/")[0]
        yield _done(settings, "db", "upgrade")
        chosen = ("--encoder", str(encoder), "--no-calibration")
        publisher = stack.enter_context(_command(settings, "index", str(_source(folder, 0, 100)), "-c", "w0", *chosen))
        until = time.monotonic() + _WITHIN
        while _done(settings, "status", "-c", "w0") and time.monotonic() < until:
            time.sleep(0.5)
        looking = stack.enter_context(_command(settings, "status", "--watch", "--every", "0.1", "-c", "w0"))
        with watching(looking.pid, elastic) as watched:
            time.sleep(seconds)
        yield "" if looking.poll() is None else f"status --watch ended with {looking.returncode}"
        yield from watched.grown()
        begun = ("worker", "--encoder", str(encoder), "--device", "cpu")
        worker = stack.enter_context(_command(settings, *begun))
        yield _ended("index", publisher, 0, [0])
        yield _ended("status --watch", looking, 0, [0])
        with watching(worker.pid, elastic) as watched:
            until, number = time.monotonic() + seconds, 0
            while time.monotonic() < until:
                number += 1
                yield _done(settings, "index", str(_source(folder, number, 100)), "-c", f"w{number}", *chosen)
        yield from watched.grown()
        yield "" if worker.poll() is None else f"worker ended by itself with {worker.returncode}"
        yield _ended("worker", worker, signal.SIGTERM, [0])


def following(folder: Path, place: str, seconds: float) -> Iterator[str]:
    """Follow an index while its owner writes; the arguments are those of ``worker_and_watch``."""
    encoder, _ = train_encoders(folder)
    server, _, prefix = place.rpartition("/")
    name, settings = f"{prefix}-followed", Settings.read(folder / "home", place)
    with client_of(server) as client:
        make_index(client, name)
        fields = ("--text", "text", "--lang-field", "lang", "--encoder", str(encoder))
        with _command(settings, "attach", name, "-c", "f", "--follow", "--every", "0.1", *fields) as follower:
            _write_for(client, name, follower, seconds / 2)  # it attaches, calibrates, and loads what that needs
            with watching(follower.pid, server) as watched:
                _write_for(client, name, follower, seconds)
            yield from watched.grown()
            yield _ended("attach --follow", follower, signal.SIGINT, [130])
        yield _done(settings, "attach", "-c", "f")
        yield _done(settings, "detach", "-c", "f")
        client.indices.delete(index=name)


def _write_for(client: Elasticsearch, name: str, follower: subprocess.Popen[bytes], seconds: float) -> None:
    """Write into an index as its owner, for so many seconds."""
    until = time.monotonic() + seconds
    for number in count():
        if time.monotonic() > until or follower.poll() is not None:
            return
        records = documents_of({str(doc): f"{number}" for doc in range(number % 5, 60, 5)})
        helpers.bulk(client, ({"_index": name, "_id": record["id"], "_source": record} for record in records))
        time.sleep(0.2)
