"""Search latency: a warm query over 100,000 documents in 20 languages, the command over 10,000; calibrating."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks import harness
from benchmarks.encoding import documents
from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Passages, int8_rows, unit_rows
from encoders.methods.registry import open_encoder
from encoders.methods.vector_parts import VectorParts
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_factory import open_store
from indexer.ledger.database import connect
from indexer.stores.contract import StoredDocument
from onnx_export.models import DEFAULT, find_model
from query.calibration.calibration import Calibration
from query.fitting.calibrate import calibrate
from query.ranking.choice import PLAIN, Choice, RankingOptions
from query.ranking.fair_ranker import FairRanker
from query.ranking.searcher import Searcher

LANGUAGES = "en de fr it es ru fi ja zh ko pl pt cs hu nl sv tr vi ar el".split()  # noqa: SIM905 - shorter to read
QUERIES = ("formatting cells in a spreadsheet", "Seitenzahlen einfügen", "как вставить диаграмму", "印刷範囲を設定する")


def fill(settings: Settings, name: str, count: int) -> None:
    """Make a collection of real vectors, multiplied by noise to the size wanted: search time depends on that alone."""
    encoder = open_encoder(find_model(DEFAULT, Console()), device="cpu")
    base = encoder.encode_documents(documents(4)).vectors
    chance = np.random.default_rng(0)
    engine = connect(settings.database)
    store = open_store(settings.store, name)
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


def calibrating(settings: Settings, encoder: Encoder) -> list[str]:
    """Time of ``dragoman calibrate`` and of doing it again, which sees what has changed; encoding the bank apart."""
    encoding = 0.0
    encode = type(encoder).encode_queries

    def timed(self: Encoder, queries: Sequence[Document]) -> FloatArray:
        nonlocal encoding
        with harness.Stopwatch() as watch:
            vectors: FloatArray = encode(self, queries)
        encoding += watch.seconds
        return vectors

    rest, bank = [], []
    with patch.object(type(encoder), "encode_queries", timed):
        for _ in range(2):
            encoding = 0.0
            with harness.Stopwatch() as watch:
                calibrate("large", settings, device="cpu")
            rest.append(watch.seconds - encoding)
            bank.append(encoding)
    return [
        "",
        "| calibrating 100,000 documents in 20 languages | s |",
        "|---|---:|",
        f"| all but the bank's encoding: opening, statistics, probe, saving | **{rest[0]:.1f}** |",
        f"| the same again, with what has changed since | {rest[1]:.1f} |",
        f"| encoding the bank's pseudo-queries | {bank[0]:.1f} |",
    ]


def _active(settings: Settings) -> Calibration:
    with closing(Searcher.open("large", settings, device="cpu")) as searcher:
        if searcher.calibration is None:
            raise SystemExit("the benchmark's collection has no calibration")
        return searcher.calibration


def warm(settings: Settings, rounds: int) -> list[str]:
    """Median time of a search by plain cosine and fairly, and of its unavoidable parts: encoding, one product."""
    encoder = open_encoder(find_model(DEFAULT, Console()), device="cpu")
    calibration_lines = calibrating(settings, encoder)
    made = _active(settings)
    with Searcher.open("large", settings, device="cpu", ranking=RankingOptions(calibration="none")) as searcher:
        model = searcher.spec.model
        everything: FloatArray = np.concatenate(
            [np.stack([one.vector for one in page]) for page in searcher.store.scan(model, batch=5000)]
        )
        plain = FairRanker(searcher.store, Calibration.none(model, VectorParts.of(searcher.spec)), PLAIN)
        rankers = {
            "knn": plain,
            "margin": FairRanker(searcher.store, made, replace(Choice.of(made), balance=0.75, passages=False)),
            "passages": FairRanker(searcher.store, made, replace(Choice.of(made), balance=0.75)),
        }
        targets = searcher.targets(None)
        watches = harness.Stopwatches(10)
        for at in range(rounds + 10):
            text = QUERIES[at % len(QUERIES)]
            vector = watches.step("encode", partial(searcher.encoder.encode_queries, [Document("q", "en", text)]))
            watches.step("product", partial(np.matmul, everything, vector[0]))
            watches.step("search", partial(searcher.search, text, lang="en"))
            for name, ranker in rankers.items():
                watches.step(name, partial(ranker.rank, vector, "en", targets, 10))
    p50 = watches.medians()
    rest = p50["search"] - p50["encode"] - p50["product"]
    return [
        "| 100,000 documents in 20 languages, warm, p50 | ms |",
        "|---|---:|",
        f"| encoding the query | {p50['encode']:.2f} |",
        f"| one matrix product, 100,000 × 384 | {p50['product']:.2f} |",
        f"| the rest of a search by plain cosine: top of each language, merge, titles, passages | **{rest:.2f}** |",
        f"| search by plain cosine | {p50['search']:.2f} |",
        f"| ranking by plain cosine | {p50['knn']:.2f} |",
        f"| debiasing and margins over that | **{p50['margin'] - p50['knn']:.2f}** |",
        f"| passages over debiasing and margins | **{p50['passages'] - p50['margin']:.2f}** |",
        *calibration_lines,
    ]


def one_shot(settings: Settings, rounds: int) -> list[str]:
    """Wall time of ``dragoman search`` as a process of its own, calibrated and not, and of starting Python alone.

    Its modules are compiled once, as an installed command's are, whatever the environment says of that.
    """
    command = [sys.executable, "-m", "query.cli", "search", QUERIES[1], "-c", "small", "--device", "cpu"]
    compiled = str(settings.home / "compiled")
    environment = dict(os.environ, DRAGOMAN_HOME=str(settings.home), PYTHONPYCACHEPREFIX=compiled)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(arguments: list[str]) -> None:
        subprocess.run(arguments, env=environment, check=True, capture_output=True)

    calibrate("small", settings, device="cpu")
    jobs = {
        "search": lambda: run(command),
        "plain": lambda: run([*command, "--calibration", "none"]),
        "help": lambda: run([sys.executable, "-m", "query.cli", "--help"]),
        "python": lambda: run([sys.executable, "-c", "import numpy, onnxruntime, sqlalchemy, tokenizers"]),
    }
    seconds = {name: statistics.median(values) for name, values in harness.in_turn(jobs, rounds).items()}
    return [
        "",
        "| a process of its own, wall | s |",
        "|---|---:|",
        f"| `dragoman search` over 10,000 documents, language detected | **{seconds['search']:.2f}** |",
        f"| the same by plain cosine | {seconds['plain']:.2f} |",
        f"| importing numpy, ONNX Runtime, SQLAlchemy and tokenizers alone | {seconds['python']:.2f} |",
        f"| `dragoman --help` | {seconds['help']:.2f} |",
    ]


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        settings = Settings.read(home=Path(place))
        fill(settings, "large", 100_000)
        fill(settings, "small", 10_000)
        lines = warm(settings, arguments.rounds) + one_shot(settings, 7)
    harness.write("Search", "python -m benchmarks.search", lines)


if __name__ == "__main__":
    main()
