"""Two thousand searches in nine languages while service and cluster are killed and begun again: no answer is wrong."""

from __future__ import annotations

import argparse
import collections
import itertools
import signal
import subprocess
import sys
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
from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.searcher import Searcher
from trials.servers.elastic import ElasticServer, running

_PORT = 8398
_URL = f"http://127.0.0.1:{_PORT}"


def attached(server: ElasticServer, home: Path, each: int) -> list[tuple[str, str]]:
    """An index of help pages, attached; returns queries with their languages: titles of pages."""
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
        self._command = [sys.executable, "-m", "query.cli", "serve", "--home", str(home), "--port", str(_PORT), "-q"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            try:
                if httpx.get(f"{_URL}/api/ready", timeout=5).json()["ready"]:
                    return
            except (httpx.TransportError, ValueError):
                pass
            time.sleep(0.1)

    def restart(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.start()

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait()


def asked(client: httpx.Client, at: int, lang: str, text: str) -> tuple[str, list[str]]:
    """What a request got: ``200`` with ids, another status, or ``away``; every other one is Elasticsearch-shaped."""
    try:
        if at % 2:
            answer = client.post("/api/search", json={"query": text, "lang": lang})
        else:
            query = {"cross_lingual": {"query": text, "lang": lang}}
            answer = client.post("/help/_search", json={"query": query, "_source": False})
    except httpx.TransportError:
        return "away", []
    if answer.status_code != 200:
        return str(answer.status_code), []
    body: dict[str, Any] = answer.json()
    return "200", [hit["id"] for hit in body["hits"]] if at % 2 else [hit["_id"] for hit in body["hits"]["hits"]]


_HONEST = {"right", "429", "503", "away"}


def trial(requests: int, each: int) -> tuple[list[str], bool]:
    """Ask, and break things meanwhile; returns the section, and whether every answer was right or an honest no."""
    with tempfile.TemporaryDirectory() as place, running() as server:
        home = Path(place)
        queries = attached(server, home, each)
        with Searcher.open("help", Settings.read(home=home), device="cpu") as searcher:
            right = {(lang, text): [hit.doc_id for hit in searcher.search(text, lang=lang)] for lang, text in queries}
        service = Service(home)

        def cluster() -> None:
            server.kill()
            server.start()

        breaking = {requests // 3: service.restart, 2 * requests // 3: cluster}
        got: collections.Counter[str] = collections.Counter()
        turns: Iterator[tuple[int, tuple[str, str]]] = enumerate(itertools.islice(itertools.cycle(queries), requests))
        lock, broken = threading.Lock(), []

        def caller(_: int) -> None:
            with httpx.Client(base_url=_URL, timeout=60) as client:
                while True:
                    with lock:
                        at, (lang, text) = next(turns, (-1, ("", "")))
                        if at in breaking:
                            broken.append(threading.Thread(target=breaking[at]))
                            broken[-1].start()
                    if at < 0:
                        return
                    said, ids = asked(client, at, lang, text)
                    with lock:
                        got["right" if ids == right[lang, text] else "wrong" if said == "200" else said] += 1
                    if said != "200":
                        time.sleep(0.2)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(caller, range(8)))
        for one in broken:
            one.join()
        with httpx.Client(base_url=_URL, timeout=60) as client:
            last = sum(asked(client, at, *one)[1] == right[one] for at, one in enumerate(queries))
        code = service.stop()
    good = set(got) <= _HONEST and last == len(queries) and code == 0
    lines = [
        f"{requests} searches by 8 callers over {len(queries)} queries in nine languages, half of them "
        "Elasticsearch-shaped; at a third the service is killed (SIGKILL) and begun again, at two thirds the cluster.",
        "",
        "| answers | |",
        "|---|---:|",
        *(f"| {said} | {got[said]} |" for said in sorted({*got, "wrong"})),
        f"| right afterwards, of {len(queries)} queries | {last} |",
        f"| exit status of the service | {code} |",
    ]
    return lines, good


def main() -> None:
    """Try, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--each", type=int, default=40)
    arguments = parser.parse_args()
    lines, good = trial(arguments.requests, arguments.each)
    harness.write("Service under accidents", "python -m benchmarks.service_load", lines)
    if not good:
        raise SystemExit("an answer was wrong, or no honest error, or not every query was right afterwards; see above")


if __name__ == "__main__":
    main()
