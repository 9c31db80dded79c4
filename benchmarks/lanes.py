"""How busy a worker keeps a GPU, by its lanes: the GPU is a pause as long as its batches take at a speed in tokens.

All else is real: chunks leased from PostgreSQL, tokenising, Elasticsearch at the other end of loopback, marks.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.workers import write_pages
from encoders.console import Console
from encoders.document import FloatArray, Int32Array, unit_rows
from encoders.inference.session import CUDA_TOKEN_BUDGET, token_batches
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.titled_windows import TitledWindows
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import connect, open_engine, upgrade
from indexer.readers.source import ReadOptions
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.handout import hand_out_sources
from indexer.workers.hints import Hints
from indexer.workers.registry import Identity
from indexer.workers.shutdown import StopSignal
from indexer.workers.worker_metrics import Metrics
from onnx_export.models import DEFAULT, find_model
from trials.servers.elastic import running as elastic_running
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.servers.redis import RedisServer


class Card:
    """Stands for the session of a GPU that computes so many padded tokens a second, a batch at a time.

    Attributes:
        busy: seconds that it computed.
    """

    def __init__(self, dim: int, speed: float) -> None:
        """Make vectors of ``dim`` numbers, which say nothing."""
        self.dim, self._speed, self._lock = dim, speed, threading.Lock()
        self.busy = 0.0

    def run(self, rows: Sequence[Int32Array], _: int, *, alone: bool = False) -> FloatArray:
        """(rows, dim) vectors of token rows."""
        lengths = [len(row) for row in rows]
        for batch in token_batches(lengths, 0 if alone else CUDA_TOKEN_BUDGET):
            seconds = len(batch) * max(lengths[index] for index in batch) / self._speed
            with self._lock:
                time.sleep(seconds)
                self.busy += seconds
        numbers = np.random.default_rng(0).standard_normal((len(rows), self.dim), dtype=np.float32)
        return unit_rows(numbers)


class LaneRuns:
    """Runs of the same pages by workers of several lanes."""

    def __init__(self, source: str, settings: Settings, speed: float) -> None:
        """Read a file of pages; the settings' store gets the vectors."""
        self._source, self._settings, self._speed = source, settings, speed
        self._engine, self._runs = connect(settings.database), 0

    def run(self, lanes: int) -> tuple[float, Card, int]:
        """Seconds of a worker of so many lanes from its first chunk to its last, its card, and the pages."""
        sentence = SentenceEncoder(find_model(DEFAULT, Console(quiet=True)), device="cpu")
        card = Card(sentence.folder.config.dim, self._speed)
        sentence.session = card  # type: ignore[assignment]
        encoder = TitledWindows(sentence)
        self._runs += 1
        name, hints = f"run{self._runs}", Hints(self._settings.broker)
        collections.register(self._engine, name, self._settings, DEFAULT, encoder.spec)
        store = StoreLocation(self._settings.store, name).open()
        run = hand_out_sources(
            [self._source], ReadOptions(), encoder.spec, store, self._engine, name, console=Console(quiet=True)
        ).run
        workers = [
            ChunkWorker(
                encoder,
                connect(self._settings.database),
                self._settings,
                hints,
                Identity(f"lane{lane}", "here", "cuda:0", encoder.spec.model, encoder.spec.build),
                60.0,
                StopSignal(1.0),
                Metrics(),
            )
            for lane in range(lanes)
        ]

        def work(worker: ChunkWorker) -> None:
            while worker.work(run.id, 0):
                pass

        with harness.Stopwatch() as watch, ThreadPoolExecutor(lanes) as pool:
            list(pool.map(work, workers))
        for worker in workers:
            worker.close()
        store.publish()
        pages = sum(store.count().values())
        store.close()
        return watch.seconds, card, pages


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=4500)
    parser.add_argument("--speed", type=float, default=400_000.0, help="padded tokens a second of the GPU")
    parser.add_argument("--lanes", default="1,2,3,4,6")
    arguments = parser.parse_args()
    lines = ["| lanes | pages/s | the GPU is busy | processor cores |", "|---:|---:|---:|---:|"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-lanes-")))
        database = stack.enter_context(running(PostgresServer)).url
        engine = open_engine(database)
        upgrade(engine)
        engine.dispose()
        settings = Settings.read(
            folder / "home",
            f"{stack.enter_context(elastic_running()).url}/lanes?replicas=0",
            database,
            stack.enter_context(running(RedisServer)).url,
        )
        runs = LaneRuns(write_pages(folder, arguments.documents), settings, arguments.speed)
        runs.run(1)  # what is slow the first time
        for lanes in map(int, arguments.lanes.split(",")):
            before = time.process_time()
            seconds, card, pages = runs.run(lanes)
            cores = (time.process_time() - before) / seconds
            lines.append(f"| {lanes} | {pages / seconds:,.0f} | {100 * card.busy / seconds:.0f} % | {cores:.2f} |")
            print(lines[-1], flush=True)
    harness.write("Lanes of a worker", harness.command("lanes", arguments, "documents", "speed", "lanes"), ["", *lines])


if __name__ == "__main__":
    main()
