"""Accidents to a service and to the cluster that it searches in."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from indexer.collection.settings import Settings
from query.ranking.searcher import Searcher
from trials.command import fell
from trials.documents import attach_pages
from trials.servers.elastic import running
from trials.servers.process import free_port
from trials.servers.service import process

_CALLERS, _INDEX = 8, "pages"
_BACK_WITHIN = 60.0  # seconds after the last accident in which every search is answered again


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
    clause = {"query": {"cross_lingual": query}, "_source": False}
    path, body = ("/api/search", query) if number % 2 else (f"/{_INDEX}/_search", clause)
    try:
        answer = client.post(path, json=body)
    except httpx.TransportError:
        return 0, []
    if answer.status_code != 200:
        return answer.status_code, []
    hits: Any = answer.json()["hits"]
    return 200, [hit["id"] for hit in hits] if number % 2 else [hit["_id"] for hit in hits["hits"]]
