"""The query service on 100,000 documents in 20 languages: what it adds to a warm ``Searcher``, and under load."""

import json
import math
import random
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from itertools import count, islice
from urllib.parse import urlsplit

import numpy as np

from benchmarks import harness
from benchmarks.search import fill, queries
from indexer.collection.settings import Settings
from query.calibration_fitting.calibration_fit import calibrate
from trials.servers.service import process

_CALLERS = 16
_SATURATING = 400  # requests of callers that never pause
_WARM = 100  # queries before those that are timed; the service has an int8 copy of the vectors then
_PAUSE = 0.1
"""Seconds before each single query: BLAS threads wait actively for some 30 ms, on a core of the other process."""


class _Callers(ThreadPoolExecutor):
    """Threads that send searches, each by a connection of its own: they take little of the service's cores."""

    def __init__(self, url: str, threads: int) -> None:
        super().__init__(threads)
        self._place = urlsplit(url).netloc
        self._local = threading.local()

    def search(self, text: str) -> Future[float]:
        """The seconds until an answer is there; infinite if the service refuses the search."""
        sent = time.perf_counter()

        def answer_seconds() -> float:
            if not hasattr(self._local, "connection"):
                self._local.connection = HTTPConnection(self._place, timeout=60)
            connection: HTTPConnection = self._local.connection
            body = json.dumps({"query": text, "lang": "en"})
            connection.request("POST", "/api/search", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            return time.perf_counter() - sent if response.status == 200 else math.inf

        return self.submit(answer_seconds)


def _texts() -> Iterator[str]:
    headlines = queries(2_400)
    yield from headlines
    for number in count(2):
        yield from (f"{headline} {number}" for headline in headlines)


def alone(settings: Settings, url: str, texts: Sequence[str]) -> list[str]:
    """p50 of the same new queries through a warm searcher and through the service, which take turns."""
    watches = harness.Stopwatches(_WARM)
    with harness.open_searcher("large", settings.home) as searcher, _Callers(url, 1) as callers:
        for text in texts:

            def request(text: str = text) -> None:
                callers.search(text).result()

            search = partial(searcher.search, text, lang="en")
            for name, job in (("searcher", search), ("service", request), ("cached", request)):
                time.sleep(_PAUSE)
                watches.step(name, job)
    p50 = watches.medians()
    rows = {
        "a warm `Searcher`, in process": p50["searcher"],
        "`POST /api/search`, over HTTP": p50["service"],
        "**what the service adds**": p50["service"] - p50["searcher"],
        "the same query again (its vector is kept)": p50["cached"],
    }
    return harness.table("one query at a time, p50 | ms", ([name, f"{ms:.1f}"] for name, ms in rows.items()))


def _at_rate(url: str, rate: float, seconds: float, texts: Iterator[str]) -> list[float]:
    """Seconds of each answer to requests that come at random, whether or not those before are answered."""
    chance = random.Random(0)
    answers = []
    with _Callers(url, 200) as callers:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            answers.append(callers.search(next(texts)))
            time.sleep(chance.expovariate(rate))
    return [answer.result() for answer in answers]


def _saturated(url: str, texts: Sequence[str]) -> float:
    with harness.Stopwatch() as watch, _Callers(url, _CALLERS) as callers:
        answers = [callers.search(text) for text in texts]
    return sum(math.isfinite(answer.result()) for answer in answers) / watch.seconds


def loaded(url: str, seconds: float, texts: Iterator[str]) -> list[str]:
    most = _saturated(url, list(islice(texts, _SATURATING)))
    answer_times = _at_rate(url, 0.7 * most, seconds, texts)
    times = [time for time in answer_times if math.isfinite(time)]
    refused = len(answer_times) - len(times)
    p50, p99 = (1000 * float(np.percentile(times, percent)) for percent in (50, 99))
    rows = {
        f"answers a second, {_CALLERS} callers": most,
        f"at 70 % of that, arriving at random: p50, ms ({len(times)} answered, {refused} refused)": p50,
        "p99, ms": p99,
        "**p99 / p50**": p99 / p50,
    }
    shown = ([name, f"{value:.1f}"] for name, value in rows.items())
    return ["", *harness.table("under load, callers on the same two cores | ", shown)]


@harness.benchmark("Service", rounds=200, seconds=30.0, documents=100_000, processes=1)
def measure(arguments: Namespace) -> list[str]:
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.read(home=home)
        fill(settings, "large", arguments.documents)
        calibrate("large", settings, device="cpu")
        with process(settings.home, "--processes", str(arguments.processes)) as (_, url):
            texts = _texts()
            lines = alone(settings, url, list(islice(texts, _WARM + arguments.rounds)))
            return lines + loaded(url, arguments.seconds, texts)
