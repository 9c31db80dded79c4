"""How busy a worker keeps a GPU, by its lanes: the GPU is a pause as long as its batches take at a speed in tokens.

All else is real: chunks leased from PostgreSQL, tokenising, Elasticsearch at the other end of loopback, marks.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from argparse import Namespace
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
from indexer.collection.settings import Settings
from indexer.ledger import index_runs
from indexer.ledger.database import open_engine, upgrade
from indexer.ledger.tables import RUNNING
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.hints import Hints
from indexer.workers.registry import Identity
from indexer.workers.shutdown import StopSignal
from indexer.workers.worker_metrics import Metrics
from onnx_export.models import DEFAULT, find_model
from trials import ROOT
from trials.command import DRAGOMAN, environment_of
from trials.worker_accidents import running_servers


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


def run(lanes: int, source: str, settings: Settings, speed: float, name: str) -> tuple[float, Card]:
    """Index pages by a worker of so many lanes; its seconds from the first chunk to the last, and its card."""
    sentence = SentenceEncoder(find_model(DEFAULT, Console(quiet=True)), device="cpu")
    card = Card(sentence.folder.config.dim, speed)
    sentence.session = card  # type: ignore[assignment]
    encoder, engine = TitledWindows(sentence), open_engine(settings.database)
    hints = Hints(settings.broker)

    def work(worker: ChunkWorker) -> None:
        while worker.work(started.id, 0):
            pass
        worker.close()

    command = [*DRAGOMAN, "index", source, "-c", name, "--no-calibration", "-q"]
    with subprocess.Popen(command, env=environment_of(settings), cwd=ROOT) as publisher:
        while not (runs := index_runs.runs(engine, name)) or runs[-1].state != RUNNING:
            if publisher.poll() is not None:
                raise RuntimeError(f"dragoman index ended with {publisher.returncode} before a chunk was encoded")
            time.sleep(0.05)
        started = runs[-1]
        spec = encoder.spec
        workers = [
            ChunkWorker(
                encoder, open_engine(settings.database), settings, hints,
                Identity(f"lane{lane}", "here", "cuda:0", spec.model, spec.build), 60.0, StopSignal(1.0), Metrics(),
            )
            for lane in range(lanes)
        ]  # fmt: skip
        with harness.Stopwatch() as watch, ThreadPoolExecutor(lanes) as pool:
            list(pool.map(work, workers))
    engine.dispose()
    return watch.seconds, card


@harness.benchmark("Lanes of a worker", documents=4500, speed=400_000.0, lanes="1,2,3,4,6")
def measure(arguments: Namespace) -> list[str]:
    """``speed`` is the GPU's padded tokens a second."""
    table = harness.Table(["| lanes | pages/s | the GPU is busy | processor cores |", "|---:|---:|---:|---:|"])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-lanes-")))
        settings = stack.enter_context(running_servers()).settings(folder / "home", "lanes")
        upgrade(open_engine(settings.database))
        source = write_pages(folder, arguments.documents)
        run(1, source, settings, arguments.speed, "warm")  # what is slow the first time
        for lanes in map(int, arguments.lanes.split(",")):
            before = time.process_time()
            seconds, card = run(lanes, source, settings, arguments.speed, f"run{lanes}")
            cores = (time.process_time() - before) / seconds
            rate, busy = arguments.documents / seconds, card.busy / seconds
            table.add(f"| {lanes} | {rate:,.0f} | {100 * busy:.0f} % | {cores:.2f} |")
    return table
