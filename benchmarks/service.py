"""The query service on 100,000 documents in 20 languages: what it adds to a warm ``Searcher``, and under load."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
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
from benchmarks.search import QUERIES, fill
from indexer.collection.settings import Settings
from query.fitting.calibrate import calibrate
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_PORT = 8399
_URL = f"http://127.0.0.1:{_PORT}"
_PAUSE = 0.1
"""Seconds before each of the single queries: threads of BLAS look out for work for some 30 ms after the last, and those
of one process would take a core from the other's."""


@contextmanager
def served(home: Path, *options: str) -> Iterator[None]:
    """``dragoman serve`` as a process of its own."""
    command = [sys.executable, "-m", "query.cli", "serve", "--home", str(home), "--port", str(_PORT), "-q", *options]
    with subprocess.Popen(command) as process:
        try:
            for _ in range(600):
                try:
                    if "opening" not in httpx.get(f"{_URL}/api/ready").json()["collections"].values():
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def alone(settings: Settings, rounds: int) -> list[str]:
    """p50 of the same queries, never seen before, through a warm searcher and through the service, taking turns."""
    watches = harness.Stopwatches(10)
    with Searcher.open("large", settings, device="cpu") as searcher, httpx.Client(base_url=_URL) as client:
        for at in range(rounds + 10):
            text = f"{QUERIES[at % len(QUERIES)]} {at}"
            asked = {"query": text, "lang": "en"}

            def ask(asked: dict[str, str] = asked) -> None:
                client.post("/api/search", json=asked).raise_for_status()

            def search(text: str = text) -> None:
                searcher.search(text, lang="en")

            for name, job in (("searcher", search), ("service", ask), ("kept", ask)):
                time.sleep(_PAUSE)
                watches.step(name, job)
    p50 = watches.medians()
    return [
        "| one query at a time, p50 | ms |",
        "|---|---:|",
        f"| a warm `Searcher`, in process | {p50['searcher']:.1f} |",
        f"| `POST /api/search`, over HTTP | {p50['service']:.1f} |",
        f"| **what the service adds** | **{p50['service'] - p50['searcher']:.1f}** |",
        f"| the same query again (its vector is kept) | {p50['kept']:.1f} |",
    ]


async def _at_rate(rate: float, seconds: float) -> tuple[list[float], int]:
    """Times of what was answered of requests that come at random, whether or not those before are; how many failed."""
    chance = random.Random(0)
    times: list[float] = []
    failed = 0

    async def ask(client: httpx.AsyncClient, at: int) -> None:
        nonlocal failed
        with harness.Stopwatch() as watch:
            answer = await client.post("/api/search", json={"query": f"{QUERIES[at % 4]} {at} {rate}", "lang": "en"})
        if answer.status_code == 200:
            times.append(watch.seconds)
        else:
            failed += 1

    async with httpx.AsyncClient(base_url=_URL, timeout=60, limits=httpx.Limits(max_connections=200)) as client:
        asked = []
        until, at = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            asked.append(asyncio.create_task(ask(client, at)))
            at += 1
            await asyncio.sleep(chance.expovariate(rate))
        await asyncio.gather(*asked)
    return times, failed


async def _saturated(requests: int, together: int) -> float:
    """Requests a second that are answered when so many callers never wait."""
    numbers = iter(range(requests))

    async def caller(client: httpx.AsyncClient) -> None:
        for at in numbers:
            (
                await client.post("/api/search", json={"query": f"{QUERIES[at % 4]} s{at}", "lang": "en"})
            ).raise_for_status()

    async with httpx.AsyncClient(base_url=_URL, timeout=60) as client:
        with harness.Stopwatch() as watch:
            await asyncio.gather(*(caller(client) for _ in range(together)))
    return requests / watch.seconds


def loaded(seconds: float) -> list[str]:
    """p50 and p99 at 70 % of the rate that saturates it."""
    most = asyncio.run(_saturated(400, 16))
    times, failed = asyncio.run(_at_rate(0.7 * most, seconds))
    p50, p99 = (1000 * float(np.percentile(times, at)) for at in (50, 99))
    return [
        "",
        "| under load, callers on the same two cores | |",
        "|---|---:|",
        f"| answers a second, 16 callers | {most:.0f} |",
        f"| at 70 % of that, arriving at random: p50, ms ({len(times)} answered, {failed} refused) | {p50:.1f} |",
        f"| p99, ms | {p99:.1f} |",
        f"| **p99 / p50** | **{p99 / p50:.1f}** |",
    ]


def passed_through(home: Path, rounds: int) -> list[str]:
    """p50 of an ordinary search sent to the cluster itself and through the service, taking turns."""
    with running() as server, Elasticsearch(server.url) as direct:
        helpers.bulk(direct, ({"_index": "pages", "body": f"page {at} of text"} for at in range(2000)), refresh=True)
        with served(home, "--elastic", server.url, "--index", "pages"), Elasticsearch(_URL) as through:
            watches = harness.Stopwatches(50)
            for at in range(rounds + 50):
                query = {"match": {"body": f"page {at}"}}
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
    with tempfile.TemporaryDirectory() as place:
        settings = Settings.read(home=Path(place) / "home")
        fill(settings, "large", arguments.documents)
        calibrate("large", settings, device="cpu")
        with served(settings.home):
            lines = [*alone(settings, arguments.rounds), *loaded(arguments.seconds)]
        small = Path(place) / "small"
        fill(Settings.read(home=small), "small", 1000)
        lines += passed_through(small, arguments.rounds)
        shutil.rmtree(small)
    harness.write("Service", "python -m benchmarks.service", lines)


if __name__ == "__main__":
    main()
