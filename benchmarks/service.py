"""The query service on 100,000 documents in 20 languages: what it adds to a warm ``Searcher``, and under load."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import numpy as np
from elasticsearch import Elasticsearch, helpers

from benchmarks import harness
from benchmarks.search import fill
from benchmarks.searchers import open_searcher
from indexer.collection.settings import Settings
from query.fitting.calibrate import calibrate
from trials.command import DRAGOMAN
from trials.servers.elastic import running
from trials.servers.service import wait_until_opened

_QUERIES = (
    "formatting cells in a spreadsheet",
    "Seitenzahlen einfügen",
    "как вставить диаграмму",
    "印刷範囲を設定する",
)
_PORT = 8399
_URL = f"http://127.0.0.1:{_PORT}"
_PAUSE = 0.1
"""Seconds before each single query: BLAS threads wait actively for some 30 ms after their last work, and those of one
process would take a core from the other process."""


@contextmanager
def served(home: Path, *options: str) -> Iterator[None]:
    """``dragoman serve`` as a process of its own."""
    command = [*DRAGOMAN, "serve", "--home", str(home), "--port", str(_PORT), "-q", *options]
    with subprocess.Popen(command) as process:
        try:
            wait_until_opened(_URL, process)
            yield
        finally:
            process.terminate()


def alone(settings: Settings, rounds: int) -> list[str]:
    """p50 of the same new queries through a warm searcher and through the service, which take turns."""
    watches = harness.Stopwatches(10)
    with open_searcher("large", settings.home) as searcher, httpx.Client(base_url=_URL) as client:
        for number in range(rounds + 10):
            text = _text(number, f"{number}")

            def request(text: str = text) -> None:
                client.post("/api/search", json={"query": text, "lang": "en"}).raise_for_status()

            def search(text: str = text) -> None:
                searcher.search(text, lang="en")

            for name, job in (("searcher", search), ("service", request), ("cached", request)):
                time.sleep(_PAUSE)
                watches.step(name, job)
    p50 = watches.medians()
    return [
        "| one query at a time, p50 | ms |",
        "|---|---:|",
        f"| a warm `Searcher`, in process | {p50['searcher']:.1f} |",
        f"| `POST /api/search`, over HTTP | {p50['service']:.1f} |",
        f"| **what the service adds** | **{p50['service'] - p50['searcher']:.1f}** |",
        f"| the same query again (its vector is kept) | {p50['cached']:.1f} |",
    ]


def _text(number: int, suffix: str) -> str:
    """A query that no other number and suffix give."""
    return f"{_QUERIES[number % len(_QUERIES)]} {suffix}"


async def _at_rate(rate: float, seconds: float) -> tuple[list[float], int]:
    """Seconds of each answer to requests that come at random, answered or not, and the number of refused requests."""
    chance = random.Random(0)
    times: list[float] = []
    refused = 0

    async def request(client: httpx.AsyncClient, number: int) -> None:
        nonlocal refused
        with harness.Stopwatch() as watch:
            response = await _search(client, _text(number, f"{number} {rate}"))
        if response.status_code == 200:
            times.append(watch.seconds)
        else:
            refused += 1

    async with httpx.AsyncClient(base_url=_URL, timeout=60, limits=httpx.Limits(max_connections=200)) as client:
        requests: list[asyncio.Task[None]] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            requests.append(asyncio.create_task(request(client, len(requests))))
            await asyncio.sleep(chance.expovariate(rate))
        await asyncio.gather(*requests)
    return times, refused


async def _saturated(requests: int, callers: int) -> float:
    """Requests answered a second when so many callers never pause."""
    numbers = iter(range(requests))

    async def call(client: httpx.AsyncClient) -> None:
        for number in numbers:
            (await _search(client, _text(number, f"s{number}"))).raise_for_status()

    async with httpx.AsyncClient(base_url=_URL, timeout=60) as client:
        with harness.Stopwatch() as watch:
            await asyncio.gather(*(call(client) for _ in range(callers)))
    return requests / watch.seconds


async def _search(client: httpx.AsyncClient, text: str) -> httpx.Response:
    return await client.post("/api/search", json={"query": text, "lang": "en"})


def loaded(seconds: float) -> list[str]:
    """p50 and p99 at 70 % of the rate that saturates the service."""
    most = asyncio.run(_saturated(400, 16))
    times, refused = asyncio.run(_at_rate(0.7 * most, seconds))
    p50, p99 = (1000 * float(np.percentile(times, percent)) for percent in (50, 99))
    return [
        "",
        "| under load, callers on the same two cores | |",
        "|---|---:|",
        f"| answers a second, 16 callers | {most:.0f} |",
        f"| at 70 % of that, arriving at random: p50, ms ({len(times)} answered, {refused} refused) | {p50:.1f} |",
        f"| p99, ms | {p99:.1f} |",
        f"| **p99 / p50** | **{p99 / p50:.1f}** |",
    ]


def passed_through(home: Path, rounds: int) -> list[str]:
    """p50 of an ordinary search sent to the cluster itself and through the service, which take turns."""
    with running() as server, Elasticsearch(server.url) as direct:
        pages = ({"_index": "pages", "body": f"page {number} of text"} for number in range(2000))
        helpers.bulk(direct, pages, refresh=True)
        with served(home, "--elastic", server.url, "--index", "pages"), Elasticsearch(_URL) as through:
            watches = harness.Stopwatches(50)
            for number in range(rounds + 50):
                query = {"match": {"body": f"page {number}"}}
                for name, client in (("direct", direct), ("through", through)):
                    watches.step(name, partial(client.search, index="pages", query=query))
    p50 = watches.medians()
    return [
        "",
        "| an ordinary search, elasticsearch-py, p50 | ms |",
        "|---|---:|",
        f"| to the cluster | {p50['direct']:.2f} |",
        f"| through the service | {p50['through']:.2f} |",
        f"| **what passing through adds** | **{p50['through'] - p50['direct']:.2f}** |",
    ]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--documents", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings.read(home=Path(scratch) / "home")
        fill(settings, "large", arguments.documents)
        calibrate("large", settings, device="cpu")
        with served(settings.home):
            lines = [*alone(settings, arguments.rounds), *loaded(arguments.seconds)]
        small = Path(scratch) / "small"
        fill(Settings.read(home=small), "small", 1000)
        lines += passed_through(small, arguments.rounds)
        shutil.rmtree(small)
    harness.write("Service", "service", lines)


if __name__ == "__main__":
    main()
