"""An Elasticsearch server without room: its disk past the flood-stage watermark, full queues, a breaker that trips.

A trial yields one text for each try: empty if the command or the service held, else what fell.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from elasticsearch import Elasticsearch

from encoders.document import Document
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.stores.clustered import own_index, writing
from indexer.stores.contract import StoredDocument
from trials import DEMO
from trials.command import TOPICS, environment_of, fell, require_done, said, started
from trials.command_attacks import chunk_states
from trials.documents import attach_pages, contents, different, put_records, sentences, write_records
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import BLOCK, LITTLE_ROOM, client_of
from trials.servers.service import client_of_process

WATERMARKS = {"cluster.routing.allocation.disk.threshold_enabled": "true", "cluster.info.update.interval": "10s"}
"""Settings of a server that looks at its disk as often as it can."""
_PATIENCE = 3.0  # seconds that a command waits for disk space in the trial
_WITHIN = 300.0
_OWNERS = "pages"
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
    client.cluster.put_settings(persistent=watermarks)
    try:
        wait_for(lambda: blocked(client, index), "the block")
        yield
    finally:
        client.cluster.put_settings(persistent=dict.fromkeys(watermarks, None))
        wait_for(lambda: not blocked(client, index), "the end of the block")


def blocked(client: Elasticsearch, index: str) -> bool:
    answer = client.indices.get_settings(index=index, name=BLOCK, flat_settings=True)
    return any(entry["settings"].get(BLOCK) == "true" for entry in answer.body.values())


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
    at = ["-c", "few", "--store", settings.store, "--home", str(home), "-q"]
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
        wait_for(lambda: chunk_states(home).get("pending") and _count(client, "disk-many-000001"), "the first chunk")
        for running in (indexing, follower):
            running.send_signal(signal.SIGSTOP)
        for number in range(_CHANGED):
            client.update(index=_OWNERS, id=str(documents[number]["id"]), doc={"text": f"The bridge fell. ({number})"})
        client.indices.refresh(index=_OWNERS)
        before = _found(service)
        with full_disk(client, _OWNERS):
            for running in (indexing, follower):
                running.send_signal(signal.SIGCONT)
            yield fell("hits are others", before, _found(service), held=_found(service) == before)
            yield _click(service)
            yield from _refused(few, on)
            left = list(client.indices.get(index=["disk-new-*", "disk-few-000003"], ignore_unavailable=True).body)
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


def _done(command: list[str]) -> str:
    status, text = said(command)
    return fell(command, status, text, held=status == 0)


def _refused(source: Path, on: list[str]) -> Iterator[str]:
    """Commands that need disk space: each ends with a sentence about the disk, and leaves no index behind."""
    changed = write_records(sentences(60, revision=1), source.with_name("changed.jsonl"))
    nothing, high = "writes nothing, because a disk", "high watermark"
    commands = (
        (nothing, ["index", changed, *on]),
        (nothing, ["index", changed, *on, "--prune"]),
        (nothing, ["delete", "d000001", *on[:-3]]),
        (high, ["index", str(source), *on, "-c", "new"]),
        (high, ["index", str(source), *on, "--rebuild"]),
    )
    with (
        patch.object(writing, "PATIENCE", _PATIENCE),
        patch.object(own_index, "_SHARDS_WITHIN", "1s"),
        patch.object(own_index, "_YELLOW_WITHIN", "1s"),
    ):
        for sentence, command in commands:
            status, text = said(command)
            held = status == 1 and sentence in text and text.count("\n") == 1
            yield fell(command, status, text, held=held)


def _click(service: httpx.Client) -> str:
    """The call of the service that writes, into its log, is answered."""
    searched = service.post("/api/search", json={"query": "The river rose", "lang": "en", "collection": "few"}).json()
    clicked = service.post("/api/clicks", json={"search": searched["search"], "id": searched["hits"][0]["id"]})
    return fell("a click", clicked.status_code, clicked.text, held=clicked.status_code < 300)


def _found(service: httpx.Client) -> list[list[str]]:
    """The ids that searches find: of two collections, across languages and by words."""
    asked, found = {"query": "The old river", "lang": "en"}, list[list[str]]()
    for name in ("few", "help"):
        hits = service.post("/api/search", json={**asked, "collection": name}).json()["hits"]
        found.append([hit["id"] for hit in hits])
    for query in ({"cross_lingual": asked}, {"match": {"text": "the"}}):
        hits = service.post(f"/{_OWNERS}/_search", json={"query": query}).json()["hits"]["hits"]
        found.append([hit["_id"] for hit in hits])
    if not all(found):
        raise RuntimeError(f"a search finds nothing: {found}")
    return found


def _lacking(client: Elasticsearch) -> int:
    client.indices.refresh(index=_OWNERS)
    answer = client.search(index=_OWNERS, size=1000, source={"includes": ["text", "lang", "dragoman.text_hash"]})
    sources = [hit["_source"] for hit in answer["hits"]["hits"]]
    return sum(
        source.get("dragoman", {}).get("text_hash") != Document("", source["lang"], source["text"]).text_hash
        for source in sources
    )


def _count(client: Elasticsearch, index: str) -> int:
    if not client.indices.exists(index=index):
        return 0
    client.indices.refresh(index=index)
    return int(client.count(index=index)["count"])


BUSY = {"thread_pool.search.size": "1", "thread_pool.search.queue_size": "8", **LITTLE_ROOM}
"""Settings of a server with room for eight searches beside that which runs, and for 6 MB of writes at once."""
_BUSY_OWNERS = "busy-pages"
_CALLERS, _TIMES, _WRITERS = 12, 5, 4
_MOST_WRITTEN = 240  # documents of 240 KB that a writer writes at most: 60 MB
_BREAKER = "indices.breaker.request.limit"
_ASKED = {"query": "The old river", "lang": "en"}
_WORDS = {"query": {"match": {"text": "the"}}}
_TWO = f"{{}}\n{json.dumps(_WORDS)}\n" * 2
_JSON_LINES = {"Content-Type": "application/x-ndjson"}

_Call = Callable[[httpx.Client], httpx.Response]
CALLS: Mapping[str, _Call] = {
    "/api/search": lambda service: service.post("/api/search", json={**_ASKED, "collection": "own"}),
    "/api/search, attached": lambda service: service.post("/api/search", json={**_ASKED, "collection": "help"}),
    "the clause": lambda service: service.post(f"/{_BUSY_OWNERS}/_search", json={"query": {"cross_lingual": _ASKED}}),
    "_search": lambda service: service.post(f"/{_BUSY_OWNERS}/_search", json=_WORDS),
    "_msearch": lambda service: service.post(f"/{_BUSY_OWNERS}/_msearch", content=_TWO, headers=_JSON_LINES),
}
"""Searches through the service, by their names."""


def busy(server: str, folder: Path) -> Iterator[str]:
    """Search and write more than a server has room for, then let its circuit breaker trip.

    The server was started with ``BUSY``; the folder is empty.
    """
    settings = Settings.read(home=folder / "home", store=f"{server}/busy")
    at = ["--home", str(settings.home), "-q"]
    on = [*at, "--device", "cpu", "--no-calibration"]
    with ExitStack() as stack:
        client = stack.enter_context(client_of(server))
        demo = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "en")]
        require_done(["index", *demo, "-c", "own", "--store", settings.store, *on])
        attach_pages(server, settings.home, _BUSY_OWNERS, 60, "--no-calibration")
        service = stack.enter_context(client_of_process(settings.home, "--elastic", server, seconds=120))
        quiet = {name: _ids(call(service).raise_for_status()) for name, call in CALLS.items()}
        yield from (fell(name, "finds nothing", held=all(found)) for name, found in quiet.items())
        yield from _storm(service, client, quiet, at)
        yield from _served(service, quiet)
        yield from _writes(settings, client, on)
        yield from _breaker(service, client, demo, on)
        yield from _served(service, quiet)


def _storm(service: httpx.Client, client: Elasticsearch, quiet: Mapping[str, Any], at: list[str]) -> Iterator[str]:
    before = _rejected_searches(client)

    def ask(caller: int) -> list[str]:
        with httpx.Client(base_url=service.base_url, timeout=120) as own:
            calls = [*CALLS.items()] * 2
            calls = calls[caller % len(CALLS) :][: len(CALLS)]
            return [_answered(name, call(own), quiet[name]) for _ in range(_TIMES) for name, call in calls]

    with ThreadPoolExecutor(_CALLERS) as pool:
        futures = [pool.submit(ask, caller) for caller in range(_CALLERS)]
        for command in (["search", "coffee", "-c", "own", "--lang", "en"], ["evaluate", "-c", "own", *TOPICS]):
            yield _ended(command, *said([*command, *at]))
        for future in futures:
            yield from future.result()
    yield fell("there was room for all searches", held=_rejected_searches(client) > before)


def _answered(name: str, answer: httpx.Response, expected: Any) -> str:
    """What fell: an answer is whole, or a refusal that says when to try again; of an ``_msearch`` each search is."""
    if answer.status_code == 200:
        refusals = ("429",) if name == "_msearch" else ()
        held = all(ids in (whole, *refusals) for ids, whole in zip(_ids(answer), expected, strict=True))
    else:
        again = int(answer.headers.get("Retry-After", 0)) > 0
        held = answer.status_code in {429, 503} and again and "error" in answer.json()
    return fell(name, answer.status_code, answer.text, held=held)


def _ids(answer: httpx.Response) -> list[Any]:
    body = answer.json()
    ids: list[Any] = []
    for found in body.get("responses", [body]):
        hits = found.get("hits", [])
        listed = hits if isinstance(hits, list) else hits["hits"]
        ids.append(str(found["status"]) if "error" in found else [hit.get("id", hit.get("_id")) for hit in listed])
    return ids


def _ended(command: list[str], status: int, text: str) -> str:
    return fell(command, text, held=status == 0 or (status == 1 and text.count("\n") == 1 and "again" in text))


def _served(service: httpx.Client, quiet: Mapping[str, Any]) -> Iterator[str]:
    for name, call in CALLS.items():
        answer = call(service)
        held = answer.status_code == 200 and _ids(answer) == quiet[name]
        yield fell(name, "afterwards", answer.status_code, answer.text, held=held)


def _writes(settings: Settings, client: Elasticsearch, on: list[str]) -> Iterator[str]:
    before, ended = _rejected_writes(client), threading.Event()
    documents = sentences(300)
    source = write_records(documents, settings.home.parent / "docs.jsonl")

    def write(writer: int) -> str:
        encoder, written = FakeEncoder(), list[str]()
        model = encoder.spec.model
        with closing(StoreLocation(settings.store, f"writer-{writer}", settings.credentials).open()) as store:
            store.create(model, encoder.spec.dim)
            while len(written) < 24 or (len(written) < _MOST_WRITTEN and not ended.is_set()):
                batch = [Document(f"d{len(written) + at}", "en", f"a long page {at} " * 15_000) for at in range(8)]
                encoded = encoder.encode_documents(batch)
                report = store.put(model, [StoredDocument.of(one, encoded, at) for at, one in enumerate(batch)])
                if report.stored != len(batch):
                    return f"writer {writer}: {report}"
                written += [document.doc_id for document in batch]
            store.publish()
            held = sorted(store.ids()) == sorted(written)
            store.drop()
        return fell(f"writer {writer}: other documents", held=held)

    with ThreadPoolExecutor(_WRITERS) as pool:
        futures = [pool.submit(write, writer) for writer in range(_WRITERS)]
        try:
            status, text = said(["index", source, "-c", "crowded", "--store", settings.store, *on])
        finally:
            ended.set()
        yield from (future.result() for future in futures)
    yield fell("index among many writers", status, text, held=status == 0)
    held = contents(settings, "crowded").keys() == {document["id"] for document in documents}
    yield fell("index among many writers lost documents", held=held)
    yield fell("there was room for all writes", held=_rejected_writes(client) > before)


def _breaker(service: httpx.Client, client: Elasticsearch, demo: list[str], on: list[str]) -> Iterator[str]:
    """While the circuit breaker trips, searches are refused and commands wait; then both go on."""
    prune = ["index", *demo, "-c", "own", "--prune", *on]
    with tripping(client):
        for name, call in CALLS.items():
            answer = call(service)
            held = answer.status_code in {429, 503} and "Retry-After" in answer.headers
            if name == "_msearch":
                held = answer.status_code == 200 and set(_ids(answer)) == {"429"}
            yield fell(name, "tripping", answer.status_code, answer.text, held=held)
        with patch.object(writing, "PATIENCE", _PATIENCE):
            for command in (["search", "coffee", "--lang", "en"], ["calibrate"], prune):
                status, text = said(command if command is prune else [*command, "-c", "own", *on[:-3]])
                yield f"{command}, tripping: status 0" if status == 0 else _ended(command, status, text)
    with ThreadPoolExecutor(1) as pool:
        with tripping(client):
            waiting = pool.submit(said, prune)
            tripped = _trips(client)
            wait_for(lambda: waiting.done() or _trips(client) > tripped + 2, "the breaker's trips")
        status, text = waiting.result()
    yield fell(prune, status, text, held=status == 0)


@contextmanager
def tripping(client: Elasticsearch) -> Iterator[None]:
    client.cluster.put_settings(persistent={_BREAKER: "1b"})
    try:
        yield
    finally:
        client.cluster.put_settings(persistent={_BREAKER: None})


def _trips(client: Elasticsearch) -> int:
    return int(_statistics(client, "breaker")["breakers"]["request"]["tripped"])


def _rejected_searches(client: Elasticsearch) -> int:
    return int(_statistics(client, "thread_pool")["thread_pool"]["search"]["rejected"])


def _rejected_writes(client: Elasticsearch) -> int:
    total = _statistics(client, "indexing_pressure")["indexing_pressure"]["memory"]["total"]
    return int(total["coordinating_rejections"] + total["primary_rejections"])


def _statistics(client: Elasticsearch, metric: str) -> Any:
    (node,) = client.nodes.stats(metric=metric)["nodes"].values()
    return node
