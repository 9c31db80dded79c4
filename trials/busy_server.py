"""An Elasticsearch server without room: full queues of searches and of writes, and a circuit breaker that trips."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from elasticsearch import Elasticsearch

from encoders.document import Document
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.stores.clustered import writing
from indexer.stores.contract import StoredDocument
from trials import DEMO
from trials.command import TOPICS, fell, require_done, said
from trials.documents import attach_pages, contents, sentences, write_records
from trials.fake_encoder import FakeEncoder
from trials.full_disk import wait_for
from trials.servers.elastic import LITTLE_ROOM, client_of
from trials.servers.service import process

BUSY = {"thread_pool.search.size": "1", "thread_pool.search.queue_size": "8", **LITTLE_ROOM}
"""Settings of a server with room for eight searches beside that which runs, and for 6 MB of writes at once."""
_OWNERS = "busy-pages"
_CALLERS, _TIMES, _WRITERS = 12, 5, 4
_MOST_WRITTEN = 240  # documents of 240 KB that a writer writes at most: 60 MB
_PATIENCE = 3.0  # seconds that a command waits for the breaker in the trial
_BREAKER = "indices.breaker.request.limit"
_ASKED = {"query": "The old river", "lang": "en"}
_WORDS = {"query": {"match": {"text": "the"}}}
_JSON_LINES = {"Content-Type": "application/x-ndjson"}

_Call = Callable[[httpx.Client], httpx.Response]
CALLS: Mapping[str, _Call] = {
    "/api/search": lambda service: service.post("/api/search", json={**_ASKED, "collection": "own"}),
    "/api/search, attached": lambda service: service.post("/api/search", json={**_ASKED, "collection": "help"}),
    "the clause": lambda service: service.post(f"/{_OWNERS}/_search", json={"query": {"cross_lingual": _ASKED}}),
    "_search": lambda service: service.post(f"/{_OWNERS}/_search", json=_WORDS),
    "_msearch": lambda service: service.post(
        f"/{_OWNERS}/_msearch", content=f"{{}}\n{json.dumps(_WORDS)}\n" * 2, headers=_JSON_LINES
    ),
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
        attach_pages(server, settings.home, _OWNERS, 60, "--no-calibration")
        _, url = stack.enter_context(process(settings.home, "--elastic", server))
        service = stack.enter_context(httpx.Client(base_url=url, timeout=120))
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
