"""Accidents to a cluster: to three processes that write into it, and to a service that searches in it."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from encoders.document import Document, Passages, int8_rows, unit_rows
from indexer.cluster.cluster_address import Address, Credentials
from indexer.collection.settings import Settings
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument
from query.ranking.searcher import Searcher
from trials import ROOT
from trials.command import fell
from trials.documents import attach_pages
from trials.servers.elastic import running
from trials.servers.process import free_port
from trials.servers.service import process

_MODEL, _DIM, _BATCH = "trial", 64, 64
_WRITERS, _REVISIONS = 3, 4
_CALLERS, _INDEX = 8, "pages"
_BACK_WITHIN = 60.0  # seconds after the last accident in which every search is answered again


def _batch(start: int, revision: int) -> list[StoredDocument]:
    vectors = unit_rows(np.random.default_rng([start, revision]).standard_normal((_BATCH, _DIM)).astype(np.float32))
    return [
        StoredDocument(
            Document(f"d{start + row:07d}", ("en", "de", "ja")[row % 3], f"{revision} of {row}", revision=revision),
            vectors[row],
            Passages(int8_rows(vectors[row][None]), np.array([[0, 8]], np.int32)),
        )
        for row in range(_BATCH)
    ]


def _store(url: str) -> ElasticStore:
    return ElasticStore(Address.parse(url), "trial", Credentials())


def write(url: str, documents: int, seed: int) -> None:
    store = _store(url)
    store.create(_MODEL, _DIM)
    writes = [(start, revision) for revision in range(_REVISIONS) for start in range(0, documents, _BATCH)]
    random.Random(seed).shuffle(writes)
    for start, revision in writes:
        store.put(_MODEL, _batch(start, revision))
    store.publish()


def writers(documents: int, accidents: int, *, seed: int = 0) -> Iterator[str]:
    """Let accidents happen to writers and their server; a killed writer begins again. A try is a document."""
    chance = random.Random(seed)
    with running() as server:
        url = f"{server.url}/trial?replicas=0"

        def start(number: int) -> subprocess.Popen[bytes]:
            code = f"from trials.cluster_accidents import write; write({url!r}, {documents}, {number})"
            return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)

        running_writers = [start(number) for number in range(_WRITERS)]
        for _ in range(accidents):
            time.sleep(chance.uniform(0.5, 3.0))
            accident = chance.choice(("kill the server", "kill a writer", "stop the server's answers"))
            if accident == "kill the server":
                server.kill()
                time.sleep(chance.uniform(0.0, 3.0))
                server.start()
            elif accident == "kill a writer":
                number = chance.randrange(_WRITERS)
                running_writers[number].kill()
                running_writers[number].wait()
                running_writers[number] = start(number)
            else:
                server.pause()
                time.sleep(chance.uniform(0.5, 4.0))
                server.go_on()
        for number, last in enumerate(running_writers):
            while last.wait():  # the server was away when the writer began: the user gives the command again
                last = start(number)  # noqa: PLW2901
        store = _store(url)
        items = {item.document.doc_id: item for page in store.scan(_MODEL) for item in page}
        yield fell("other documents", store.count(), held=sum(store.count().values()) == len(items) == documents)
        for first in range(0, documents, _BATCH):
            for expected in _batch(first, _REVISIONS - 1):
                item = items.get(expected.document.doc_id)
                held = item and item.document == expected.document and bool((item.vector == expected.vector).all())
                yield fell(expected.document.doc_id, "is not as last written", held=bool(held))


def killed(home: Path, searches: int) -> Iterator[str]:
    """Search so many times; at a third the service is killed, at two thirds the cluster. A try is a search."""
    port, turns, lock = free_port(), iter(range(searches)), threading.Lock()
    with running() as server, ExitStack() as stack:
        pages = attach_pages(server.url, home, _INDEX, 200, "--vectors", "flat")
        queries = [(str(page["lang"]), " ".join(str(page["text"]).split()[:6])) for page in pages[::5]]
        with Searcher.open("help", Settings.read(home=home), device="cpu") as searcher:
            right = {query: [hit.doc_id for hit in searcher.search(query[1], lang=query[0])] for query in queries}
        service, url = stack.enter_context(process(home, port=port))

        def restart_service() -> None:
            service.kill()
            service.wait()
            stack.enter_context(process(home, port=port))

        def restart_cluster() -> None:
            server.kill()
            server.start()

        accidents = {searches // 3: restart_service, 2 * searches // 3: restart_cluster}

        def take() -> int:
            with lock:
                return next(turns, -1)

        def call(_: int) -> Iterator[str]:
            with httpx.Client(base_url=url, timeout=60) as client:
                while (number := take()) >= 0:
                    accidents.get(number, lambda: None)()
                    query = queries[number % len(queries)]
                    status, ids = _search(client, number, *query)
                    held = ids == right[query] if status == 200 else status in {0, 429, 503}
                    yield fell(number, query, status, ids, held=held)
                    if status != 200:
                        time.sleep(0.2)

        with ThreadPoolExecutor(_CALLERS) as pool:
            for outcomes in pool.map(lambda caller: list(call(caller)), range(_CALLERS)):
                yield from outcomes
        with httpx.Client(base_url=url, timeout=60) as client:
            until = time.monotonic() + _BACK_WITHIN
            for number, query in enumerate(queries):
                while (answer := _search(client, number, *query))[0] != 200 and time.monotonic() < until:
                    time.sleep(0.2)
                yield fell("afterwards", query, answer, held=answer == (200, right[query]))


def _search(client: httpx.Client, number: int, lang: str, text: str) -> tuple[int, list[str]]:
    """The status of a search, 0 if the service is away, and its ids; every other request is Elasticsearch-shaped."""
    query = {"query": text, "lang": lang}
    try:
        if number % 2:
            answer = client.post("/api/search", json=query)
        else:
            answer = client.post(f"/{_INDEX}/_search", json={"query": {"cross_lingual": query}, "_source": False})
    except httpx.TransportError:
        return 0, []
    if answer.status_code != 200:
        return answer.status_code, []
    hits: Any = answer.json()["hits"]
    return 200, [hit["id"] for hit in hits] if number % 2 else [hit["_id"] for hit in hits["hits"]]
