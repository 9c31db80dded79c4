"""An Elasticsearch server without room: its disk past the flood-stage watermark, full queues, a breaker that trips.

A trial yields one text for each try: empty if the command or the service held, else what fell.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from elasticsearch import Elasticsearch

from encoders.document import Document
from indexer.collection.settings import Settings
from indexer.stores.clustered import own_index, writing
from trials import DEMO
from trials.command import TOPICS, environment_of, fell, require_done, said, started
from trials.command_attacks import chunk_states
from trials.documents import attach_pages, contents, different, put_records, sentences, write_records
from trials.servers.elastic import BLOCK, LITTLE_ROOM, client_of
from trials.servers.service import client_of_process

WATERMARKS = {"cluster.routing.allocation.disk.threshold_enabled": "true", "cluster.info.update.interval": "10s"}
"""Settings of a server that looks at its disk as often as it can."""
_PATIENCE = 3.0  # seconds that a command waits for disk space in the trial
_WITHIN = 300.0
_OWNERS = "pages"
_ASKED = {"query": "The old river", "lang": "en"}
_WORDS = {"query": {"match": {"text": "the"}}}
CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "/api/search": ("/api/search", {"json": {**_ASKED, "collection": "own"}}),
    "/api/search, attached": ("/api/search", {"json": {**_ASKED, "collection": "help"}}),
    "the clause": (f"/{_OWNERS}/_search", {"json": {"query": {"cross_lingual": _ASKED}}}),
    "_search": (f"/{_OWNERS}/_search", {"json": _WORDS}),
    "_msearch": (
        f"/{_OWNERS}/_msearch",
        {"content": f"{{}}\n{json.dumps(_WORDS)}\n" * 2, "headers": {"Content-Type": "application/x-ndjson"}},
    ),
}
"""Paths of searches through the service and what is sent, by their names."""
_MANY, _CHANGED = 400, 8

_PATIENT_FOR = """
import sys
from indexer.stores.clustered import writing
from query.cli import run
writing.PATIENCE = float(sys.argv[1])
sys.exit(run(sys.argv[2:]))
"""


@contextmanager
def full_disk(client: Elasticsearch, index: str) -> Iterator[None]:
    """Set the watermarks higher than any disk, until the server has blocked an index; afterwards the block is gone."""
    names = ("low", "high", "flood_stage")
    watermarks = dict.fromkeys((f"cluster.routing.allocation.disk.watermark.{name}" for name in names), "1000tb")

    def blocked() -> bool:
        (answer,) = client.indices.get_settings(index=index, name=BLOCK, flat_settings=True).body.values() or [{}]
        return bool(answer.get("settings", {}).get(BLOCK) == "true")

    client.cluster.put_settings(persistent=watermarks)
    try:
        wait_for(blocked, "the block")
        yield
    finally:
        client.cluster.put_settings(persistent=dict.fromkeys(watermarks, None))
        wait_for(lambda: not blocked(), "the end of the block")


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {_WITHIN:.0f} s")
        time.sleep(0.1)


def watermark(server: str, folder: Path) -> Iterator[str]:
    """Fill the disk while one process indexes, one follows and one answers; then let other commands write.

    The server was started with ``WATERMARKS``; the folder is empty.
    """
    home, few, many = folder / "home", folder / "few.jsonl", folder / "many.jsonl"
    settings = Settings.read(home=home, store=f"{server}/disk")
    documents = sentences(_MANY)

    def log(command: str) -> str:
        return (folder / f"{command}.log").read_text(encoding="utf-8")

    def start(patience: float, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        command = [sys.executable, "-c", _PATIENT_FOR, str(patience), *arguments]
        return started(command, environment_of(settings), folder / f"{arguments[0]}.log")

    write_records(documents[:60], few)
    write_records(documents, many)
    at = ["-c", "own", "--store", settings.store, "--home", str(home), "-q"]
    on = [*at, "--device", "cpu", "--no-calibration"]
    with ExitStack() as stack:
        client = stack.enter_context(client_of(server))
        put_records(client, _OWNERS, documents[:40])
        for rebuild in ([], ["--rebuild"]):
            require_done(["index", str(few), *on, *rebuild])
        require_done(["index", str(few), *on, "-c", "spare"])
        service = stack.enter_context(client_of_process(home, "--log", "--elastic", server, seconds=120))
        follow = ["attach", _OWNERS, *on, "-c", "help", "--text", "text", "--lang-field", "lang", "--every", "1"]
        follower = stack.enter_context(start(_PATIENCE, *follow, "--store", server, "--follow"))
        wait_for(lambda: not _lacking(client), "the follower's first look")
        indexing = stack.enter_context(start(_WITHIN, "index", str(many), *on, "-c", "many"))
        wait_for(lambda: chunk_states(home).keys() >= {"done", "pending"}, "the first chunk")
        for running in (indexing, follower):
            running.send_signal(signal.SIGSTOP)
        for number in range(_CHANGED):
            client.update(index=_OWNERS, id=str(documents[number]["id"]), doc={"text": f"The bridge fell. ({number})"})
        client.indices.refresh(index=_OWNERS)
        quiet = _quiet(service)
        with full_disk(client, _OWNERS):
            for running in (indexing, follower):
                running.send_signal(signal.SIGCONT)
            yield from _served(service, quiet)
            yield _click(service)
            yield from _without_disk(few, on)
            left = list(client.indices.get(index=["disk-new-*", "disk-own-000003"], ignore_unavailable=True).body)
            yield fell("indices are left behind", left, held=not left)
            for name, *more in (["calibrate"], ["rollback"], ["status"], ["delete", "--all", "--yes", "-c", "spare"]):
                yield _done([name, *at, *more])
            wait_for(lambda: "trying again" in log("attach"), "the follower's warning")
            held = indexing.poll() is None and follower.poll() is None
            yield fell("a process ended", indexing.poll(), follower.poll(), held=held)
        yield fell("index", indexing.wait(_WITHIN), log("index"), held=indexing.returncode == 0)
        wait_for(lambda: not _lacking(client), "the changed documents")
        yield fell("follow", follower.poll(), log("attach"), held=follower.poll() is None)
        yield from map(_done, (["index", str(few), *on], ["index", str(few), *on, "-c", "new"]))
        follower.send_signal(signal.SIGINT)
        follower.wait(_WITHIN)
    alone = Settings.read(home=folder / "alone")
    require_done(["index", str(many), *on[-3:], "-c", "many", "--home", str(alone.home), "-q"])
    wrong = different(contents(alone, "many"), contents(settings, "many"))
    yield fell("documents differ from an undisturbed run's", wrong[:3], held=not wrong)


def _refused(command: list[str], sentence: str) -> str:
    status, text = said(command)
    return fell(command, status, text, held=status == 1 and sentence in text and text.count("\n") == 1)


def _done(command: list[str]) -> str:
    status, text = said(command)
    return fell(command, status, text, held=status == 0)


def _without_disk(source: Path, on: list[str]) -> Iterator[str]:
    """Commands that need disk space: each ends with a sentence about the disk, and leaves no index behind."""
    changed = write_records(sentences(60, revision=1), source.with_name("changed.jsonl"))
    nothing, high = "writes nothing, because a disk", "high watermark"
    commands = (
        (nothing, ["index", changed, *on]),
        (nothing, ["index", changed, *on, "--prune"]),
        (nothing, ["delete", "d000001", *on[:-3]]),
        (high, ["index", str(source), *on, "-c", "new"]),
        (high, ["index", str(source), *on, "--rebuild"]),
        (high, ["attach", _OWNERS, *on, "-c", "new-beside", "--text", "text", "--companion"]),
    )
    with (
        patch.object(writing, "PATIENCE", _PATIENCE),
        patch.object(own_index, "_SHARDS_WITHIN", "1s"),
        patch.object(own_index, "_YELLOW_WITHIN", "1s"),
    ):
        yield from (_refused(command, sentence) for sentence, command in commands)


def _click(service: httpx.Client) -> str:
    """The call of the service that writes, into its log, is answered."""
    searched = service.post("/api/search", json={"query": "The river rose", "lang": "en", "collection": "own"}).json()
    clicked = service.post("/api/clicks", json={"search": searched["search"], "id": searched["hits"][0]["id"]})
    return fell("a click", clicked.status_code, clicked.text, held=clicked.status_code < 300)


def _answers(service: httpx.Client) -> dict[str, httpx.Response]:
    return {name: service.post(path, **content) for name, (path, content) in CALLS.items()}


def _ids(answer: httpx.Response) -> list[Any]:
    """The ids that each search of an answer found, or its status."""
    body, ids = answer.json(), list[Any]()
    for found in body.get("responses", [body]):
        hits = found.get("hits", [])
        listed = hits if isinstance(hits, list) else hits["hits"]
        ids.append(str(found["status"]) if "error" in found else [hit.get("id", hit.get("_id")) for hit in listed])
    return ids


def _quiet(service: httpx.Client) -> dict[str, list[Any]]:
    """What searches find while nothing is the matter."""
    quiet = {name: _ids(answer.raise_for_status()) for name, answer in _answers(service).items()}
    if not all(ids for found in quiet.values() for ids in found):
        raise RuntimeError(f"a search finds nothing: {quiet}")
    return quiet


def _served(service: httpx.Client, quiet: Mapping[str, Any]) -> Iterator[str]:
    for name, answer in _answers(service).items():
        held = answer.status_code == 200 and _ids(answer) == quiet[name]
        yield fell(name, answer.status_code, answer.text, held=held)


def _lacking(client: Elasticsearch) -> int:
    client.indices.refresh(index=_OWNERS)
    answer = client.search(index=_OWNERS, size=1000, source={"includes": ["text", "lang", "dragoman.text_hash"]})
    sources = [hit["_source"] for hit in answer["hits"]["hits"]]
    return sum(
        source.get("dragoman", {}).get("text_hash") != Document("", source["lang"], source["text"]).text_hash
        for source in sources
    )


BUSY = {"thread_pool.search.size": "1", "thread_pool.search.queue_size": "8", **LITTLE_ROOM}
"""Settings of a server with room for eight searches beside that which runs, and for little else."""
_CALLERS, _TIMES = 12, 5
_BREAKER = "indices.breaker.request.limit"
_TRIPS, _REJECTED = ("breakers", "request", "tripped"), ("thread_pool", "search", "rejected")


def busy(server: str, folder: Path) -> Iterator[str]:
    """Search more than a server has room for, then let its circuit breaker trip.

    The server was started with ``BUSY``; the folder is empty.
    """
    settings = Settings.read(home=folder / "home", store=f"{server}/busy")
    at = ["--home", str(settings.home), "-q"]
    on = [*at, "--device", "cpu", "--no-calibration"]
    with ExitStack() as stack:
        client = stack.enter_context(client_of(server))
        demo = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en")]
        require_done(["index", *demo, "-c", "own", "--store", settings.store, *on])
        attach_pages(server, settings.home, _OWNERS, 60, "--no-calibration")
        service = stack.enter_context(client_of_process(settings.home, "--elastic", server, seconds=120))
        quiet = _quiet(service)
        yield from _storm(service, client, quiet, at)
        yield from _served(service, quiet)
        yield from _breaker(service, client, quiet, demo, on)
        yield from _served(service, quiet)


def _storm(service: httpx.Client, client: Elasticsearch, quiet: Mapping[str, Any], at: list[str]) -> Iterator[str]:
    before = _statistics(client, *_REJECTED)

    def ask(caller: int) -> list[str]:
        with httpx.Client(base_url=service.base_url, timeout=120) as own:
            calls = [*CALLS.items()] * 2
            calls = calls[caller % len(CALLS) :][: len(CALLS)]
            return [
                _answered(name, own.post(path, **content), quiet[name])
                for _ in range(_TIMES)
                for name, (path, content) in calls
            ]

    with ThreadPoolExecutor(_CALLERS) as pool:
        futures = [pool.submit(ask, caller) for caller in range(_CALLERS)]
        for command in (["search", "coffee", "-c", "own", "--lang", "en"], ["evaluate", "-c", "own", *TOPICS]):
            status, text = said([*command, *at])
            held = status == 0 or (status == 1 and text.count("\n") == 1 and "again" in text)
            yield fell(command, status, text, held=held)
        for future in futures:
            yield from future.result()
    yield fell("there was room for all searches", held=_statistics(client, *_REJECTED) > before)


def _answered(name: str, answer: httpx.Response, expected: Any) -> str:
    """What fell: an answer is whole, or a refusal that says when to try again; of an ``_msearch`` each search is."""
    if answer.status_code == 200:
        held = all(ids in (whole, "429") for ids, whole in zip(_ids(answer), expected, strict=True))
    else:
        again = int(answer.headers.get("Retry-After", 0)) > 0
        held = answer.status_code in {429, 503} and again and "error" in answer.json()
    return fell(name, answer.status_code, answer.text, held=held)


def _breaker(
    service: httpx.Client, client: Elasticsearch, quiet: Mapping[str, Any], demo: list[str], on: list[str]
) -> Iterator[str]:
    """While the circuit breaker trips, searches are refused and commands wait; then both go on."""
    prune = ["index", *demo, "-c", "own", "--prune", *on]
    with tripping(client):
        for name, answer in _answers(service).items():
            yield _answered(f"{name}, tripping", answer, ["429"] * len(quiet[name]))
        with patch.object(writing, "PATIENCE", _PATIENCE):
            for command in (["search", "coffee", "--lang", "en"], ["calibrate"], prune):
                yield _refused(command if command is prune else [*command, "-c", "own", *on[:-3]], "again")
    with ThreadPoolExecutor(1) as pool:
        with tripping(client):
            waiting = pool.submit(_done, prune)
            tripped = _statistics(client, *_TRIPS)
            wait_for(lambda: waiting.done() or _statistics(client, *_TRIPS) > tripped + 2, "the breaker's trips")
        yield waiting.result()


@contextmanager
def tripping(client: Elasticsearch) -> Iterator[None]:
    client.cluster.put_settings(persistent={_BREAKER: "1b"})
    try:
        yield
    finally:
        client.cluster.put_settings(persistent={_BREAKER: None})


def _statistics(client: Elasticsearch, *names: str) -> int:
    (figure,) = client.nodes.stats()["nodes"].values()
    for name in names:
        figure = figure[name]
    return int(figure)
