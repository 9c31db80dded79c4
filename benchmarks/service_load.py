"""Two thousand searches in nine languages; service and cluster are killed and restarted, and no answer may be wrong."""

from __future__ import annotations

import argparse
import collections
import itertools
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from elasticsearch import Elasticsearch, helpers

from benchmarks import harness
from benchmarks.encoding import documents
from benchmarks.searchers import open_searcher
from query.cli import run
from trials.command import DRAGOMAN
from trials.servers.elastic import ElasticServer, running
from trials.servers.service import wait_until_opened

_PORT = 8398
_URL = f"http://127.0.0.1:{_PORT}"


def attach_pages(server: ElasticServer, home: Path, each: int) -> list[tuple[str, str]]:
    """Attach an index of help pages; returns titles of pages as queries, each after its language."""
    pages = documents(each)
    with Elasticsearch(server.url) as client:
        helpers.bulk(
            client,
            (
                {"_index": "help", "_id": page.doc_id, "title": page.title, "body": page.text[:600], "lang": page.lang}
                for page in pages
            ),
            refresh=True,
        )
    fields = ["--text", "body", "--title", "title", "--lang-field", "lang", "--vectors", "flat", "-q"]
    if run(["attach", "help", "-c", "help", "--store", server.url, *fields, "--home", str(home)]):
        raise SystemExit("the index could not be attached")
    return [(page.lang, page.title) for page in pages if len(page.title) > 8][::3]


class Service:
    """``dragoman serve`` as a process that can be killed."""

    def __init__(self, home: Path) -> None:
        self._command = [*DRAGOMAN, "serve", "--home", str(home), "--port", str(_PORT), "-q"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        wait_until_opened(_URL, self._process)

    def restart(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.start()

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait()


def search(client: httpx.Client, number: int, lang: str, text: str) -> tuple[str, list[str]]:
    """Search: ``200`` and ids, another status, or ``away``; every other request is Elasticsearch-shaped."""
    try:
        if number % 2:
            response = client.post("/api/search", json={"query": text, "lang": lang})
        else:
            query = {"cross_lingual": {"query": text, "lang": lang}}
            response = client.post("/help/_search", json={"query": query, "_source": False})
    except httpx.TransportError:
        return "away", []
    if response.status_code != 200:
        return str(response.status_code), []
    hits: Any = response.json()["hits"]
    return "200", [hit["id"] for hit in hits] if number % 2 else [hit["_id"] for hit in hits["hits"]]


_HONEST = {"right", "429", "503", "away"}


def trial(requests: int, each: int) -> tuple[list[str], bool]:
    """Search while things break; returns the section, and whether every answer was right or an honest error."""
    with tempfile.TemporaryDirectory() as folder, running() as server:
        home = Path(folder)
        queries = attach_pages(server, home, each)
        with open_searcher("help", home) as searcher:
            right = {(lang, text): [hit.doc_id for hit in searcher.search(text, lang=lang)] for lang, text in queries}
        service = Service(home)

        def restart_cluster() -> None:
            server.kill()
            server.start()

        accidents = {requests // 3: service.restart, 2 * requests // 3: restart_cluster}
        answers: collections.Counter[str] = collections.Counter()
        turns: Iterator[tuple[int, tuple[str, str]]] = enumerate(itertools.islice(itertools.cycle(queries), requests))
        lock = threading.Lock()
        threads: list[threading.Thread] = []

        def call(_: int) -> None:
            with httpx.Client(base_url=_URL, timeout=60) as client:
                while True:
                    with lock:
                        number, (lang, text) = next(turns, (-1, ("", "")))
                        if number in accidents:
                            threads.append(threading.Thread(target=accidents[number]))
                            threads[-1].start()
                    if number < 0:
                        return
                    status, ids = search(client, number, lang, text)
                    with lock:
                        answers["right" if ids == right[lang, text] else "wrong" if status == "200" else status] += 1
                    if status != "200":
                        time.sleep(0.2)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(8)))
        for thread in threads:
            thread.join()
        with httpx.Client(base_url=_URL, timeout=60) as client:
            last = sum(search(client, number, *query)[1] == right[query] for number, query in enumerate(queries))
        code = service.stop()
    good = set(answers) <= _HONEST and last == len(queries) and code == 0
    lines = [
        f"{requests} searches by 8 callers over {len(queries)} queries in nine languages, half of them "
        "Elasticsearch-shaped; at a third the service is killed (SIGKILL) and begun again, at two thirds the cluster.",
        "",
        "| answers | |",
        "|---|---:|",
        *(f"| {answer} | {answers[answer]} |" for answer in sorted({*answers, "wrong"})),
        f"| right afterwards, of {len(queries)} queries | {last} |",
        f"| exit status of the service | {code} |",
    ]
    return lines, good


def main() -> None:
    """Run the trial, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--each", type=int, default=40)
    arguments = parser.parse_args()
    lines, good = trial(arguments.requests, arguments.each)
    harness.write("Service under accidents", "service_load", lines)
    if not good:
        raise SystemExit("an answer was wrong, or no honest error, or not every query was right afterwards; see above")


if __name__ == "__main__":
    main()
