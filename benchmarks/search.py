"""Latency of a warm query over 100,000 documents in 20 languages, and of the command over 10,000; calibration."""

import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import harness
from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Passages, int8_rows, unit_rows
from encoders.methods.method_registry import open_encoder
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import connect
from indexer.stores.contract import StoredDocument
from onnx_export.models import DEFAULT, find_model
from query.calibration_fitting.calibration_fit import calibrate
from query.ranking.ranking_options import RankingOptions
from query.trec_files.topics import read_topics
from trials.command import DRAGOMAN

LANGUAGES = "en de fr it es ru fi ja zh ko pl pt cs hu nl sv tr vi ar el".split()  # noqa: SIM905 - shorter to read
_QUERY = "Seitenzahlen einfügen"
_BEFORE = 200  # queries before those that are timed: a service that is warm knows many of the documents near a query


def queries(count: int) -> list[str]:
    """As many headlines of news in the collection's languages, in an order by chance; no headline is there twice."""
    topics = [topic for topic in read_topics(harness.DATA / "ntrex" / "topics.headline.tsv") if topic.lang in LANGUAGES]
    order = np.random.default_rng(0).permutation(len(topics))
    return [topics[row].title for row in order[:count]]


def fill(settings: Settings, name: str, count: int) -> None:
    """Make a collection of ``count`` vectors in clusters: each is the vector of a real page, with noise."""
    encoder = open_encoder(find_model(DEFAULT, Console()), device="cpu")
    base = encoder.encode_documents(harness.help_pages(4)).vectors
    chance = np.random.default_rng(0)
    engine = connect(settings.database)
    store = StoreLocation(settings.store, name).open()
    store.create(encoder.spec.model, encoder.spec.dim)
    collections.register(engine, name, settings, DEFAULT, encoder.spec)
    for start in range(0, count, 5000):
        numbers = range(start, min(start + 5000, count))
        picked = base[chance.integers(0, len(base), len(numbers))]
        vectors: FloatArray = unit_rows(picked + 0.02 * chance.standard_normal(picked.shape).astype(np.float32))
        store.put(
            encoder.spec.model, [_stored(number, vector) for number, vector in zip(numbers, vectors, strict=True)]
        )
    store.close()
    engine.dispose()


def _stored(number: int, vector: FloatArray) -> StoredDocument:
    text = f"Page {number}. " + "words of a help page " * 40
    passages = Passages(int8_rows(vector[None].repeat(3, axis=0)), np.array([[0, 80], [80, 160], [160, 240]], np.int32))
    return StoredDocument(Document(f"d{number}", LANGUAGES[number % 20], text, f"Page {number}"), vector, passages)


def calibration_lines(settings: Settings, encoder: Encoder) -> list[str]:
    """Time of a first calibration; the bank's encoding is apart."""
    encoding = 0.0
    encode = type(encoder).encode_queries

    def timed(self: Encoder, queries: Sequence[Document]) -> FloatArray:
        nonlocal encoding
        with harness.Stopwatch() as watch:
            vectors: FloatArray = encode(self, queries)
        encoding += watch.seconds
        return vectors

    with patch.object(type(encoder), "encode_queries", timed), harness.Stopwatch() as watch:
        calibrate("large", settings, device="cpu")
    rows = {
        "all but the bank's encoding: opening, statistics, decisions, saving": watch.seconds - encoding,
        "encoding the bank's pseudo-queries": encoding,
    }
    shown = ([name, f"{seconds:.1f}"] for name, seconds in rows.items())
    return ["", *harness.table("calibrating 100,000 documents in 20 languages | s", shown)]


def warm(settings: Settings, rounds: int) -> list[str]:
    """Median time of a search by plain cosine and fairly, beside encoding and one product of all vectors."""
    encoder = open_encoder(find_model(DEFAULT, Console()), device="cpu")
    calibration_table = calibration_lines(settings, encoder)
    with harness.open_searcher("large", settings.home) as calibrated:
        calibration = calibrated.calibration
    assert calibration is not None
    # products on one thread, as the command has them
    with harness.open_searcher("large", settings.home, harness.UNCALIBRATED) as searcher, threadpool_limits(1, "blas"):
        model = searcher.spec.model
        vectors: FloatArray = np.concatenate(
            [np.stack([item.vector for item in page]) for page in searcher.store.scan(model, batch=5000)]
        )
        without, fair = (
            replace(searcher, calibration=replace(calibration, mates=mates), ranking=RankingOptions())
            for mates in (False, True)
        )
        watches = harness.Stopwatches(_BEFORE)
        for text in queries(_BEFORE + rounds):
            vector = watches.step("encode", partial(searcher.encoder.encode_queries, [Document("q", "en", text)]))
            watches.step("product", partial(np.matmul, vectors, vector[0]))
            for name, searched in (("plain", searcher), ("without", without), ("fair", fair)):
                watches.step(name, partial(searched.search, text, lang="en"))
            watches.step("subjects", partial(fair.search, text, lang="en", subjects=True))
    p50 = watches.medians()
    least = p50["encode"] + p50["product"]
    names = {
        "encode": "encoding the query",
        "product": "one matrix product, 100,000 × 384",
        "plain": "search by plain cosine, ten hits with title and passage",
        "without": "fair search, without mates",
        "fair": "**fair search, with mates**",
        "subjects": "fair search for ten subjects, with all versions",
    }
    header = f"100,000 documents in 20 languages, p50 of {rounds} headlines after {_BEFORE} others | ms | over both"
    rows = ([about, f"{p50[name]:.2f}", f"{p50[name] / least:.2f} ×"] for name, about in names.items())
    return [*harness.table(header, rows), *calibration_table]


def one_shot(settings: Settings, rounds: int) -> list[str]:
    """Wall time of commands as processes of their own, and of starting Python with their packages alone."""
    command = [*DRAGOMAN, "search", _QUERY, "-c", "small", "--device", "cpu"]
    compiled = str(settings.home / "compiled")
    environment = dict(os.environ, DRAGOMAN_HOME=str(settings.home), PYTHONPYCACHEPREFIX=compiled)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command is compiled

    def run(arguments: list[str]) -> None:
        subprocess.run(arguments, env=environment, check=True, capture_output=True)

    calibrate("small", settings, device="cpu")
    jobs = {
        "`dragoman search` over 10,000 documents, language detected": command,
        "importing numpy, ONNX Runtime and tokenizers alone": [
            *(sys.executable, "-c", "import numpy, onnxruntime, tokenizers")
        ],
        "`dragoman status`, of two collections": [*DRAGOMAN, "status"],
        "importing click and sqlite3 alone": [sys.executable, "-c", "import click, sqlite3"],
    }
    seconds = harness.in_turn({name: partial(run, words) for name, words in jobs.items()}, rounds)
    rows = ([name, f"{statistics.median(values):.2f}"] for name, values in seconds.items())
    return ["", *harness.table("a process of its own, wall | s", rows)]


@harness.benchmark("Search", rounds=200, documents=100_000)
def measure(arguments: Namespace) -> list[str]:
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.read(home=home)
        fill(settings, "large", arguments.documents)
        fill(settings, "small", 10_000)
        return warm(settings, arguments.rounds) + one_shot(settings, 7)
