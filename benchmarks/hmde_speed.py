"""HMDE's speed: a training step against documents padded to 32 × 128, and encoding against *sentences*."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.hmde_vectors import documents
from encoders.console import Console
from encoders.document import Document
from encoders.folder import ModelFolder
from encoders.hmde.triples import Rows, Triples, page_of
from encoders.hmde.upper import UpperShape
from encoders.methods.registry import open_encoder
from onnx_export.hmde.settings import Settings
from onnx_export.models import DEFAULT

LANGS = ("de", "en", "fr", "it")
WAYS = {"plain": "documents padded to 32 × 128, one graph", "ours": "ours"}


def pages(count: int) -> list[Document]:
    """Help pages of the same concepts in four languages."""
    return [page for lang in LANGS for page in documents("lohelp", lang)[:count]]


def plain(lower: Any, upper: Any, triples: Rows, settings: Settings) -> None:
    """One step as it is first written: every document 32 sentences of 128 tokens, one graph of it all."""
    import numpy as np
    import torch

    from onnx_export.hmde.model import contrastive_loss

    shape = upper.shape
    vectors = []
    for column in triples.T:
        ids = np.full((len(column), shape.sentences, shape.tokens), 1, dtype=np.int64)
        mask = np.zeros_like(ids)
        there = np.zeros((len(column), shape.sentences), dtype=np.int64)
        mask[:, :, 0] = 1
        for at, row in enumerate(column.tolist()):
            for place, tokens in enumerate(lower.tokens(row)):
                ids[at, place, : len(tokens)] = tokens
                mask[at, place, : len(tokens)] = 1
                there[at, place] = 1
        flat = lower.module(*(torch.from_numpy(one.reshape(-1, shape.tokens)) for one in (ids, mask)))
        vectors.append(upper(flat.reshape(len(column), shape.sentences, -1), torch.from_numpy(there)))
    first, second, negative = vectors
    numbers = torch.arange(len(triples))
    contrastive_loss(first, second, negative, numbers, settings.temperature).backward()  # type: ignore[no-untyped-call]


def measure(way: str, batch: int, count: int, steps: int) -> None:
    """Seconds a step and peak memory of one way, as JSON on stdout; a process of its own, for its memory."""
    import torch

    from onnx_export.hmde import base
    from onnx_export.hmde.model import Upper
    from onnx_export.hmde.objective import Objective

    torch.manual_seed(0)
    settings = Settings(batch=batch)
    some = pages(count)
    lower: Any = base.open_trained(DEFAULT, settings, "cpu", Console(quiet=True)).lower
    lower.take([lower.prepare(some)])
    triples = Triples([page_of(page.lang, page.fields) for page in some])
    upper = Upper(UpperShape(384))
    objective = Objective(upper, lower, triples, settings)
    seconds = []
    for number in range(steps + 1):
        with harness.Stopwatch() as watch:
            if way == "plain":
                lower.module.train()
                plain(lower, upper, triples.draw(number * batch, batch), settings)
            else:
                objective.loss(number, number).backward()  # type: ignore[no-untyped-call]
                lower.learn()
        seconds.append(watch.seconds)
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": sum(seconds[1:]) / steps, "mb": mb}))


def training(batch: int, count: int, steps: int) -> None:
    """Measure both ways and write the section."""
    told = {}
    for way in WAYS:
        given = [f"--batch={batch}", f"--pages={count}", f"--steps={steps}"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.hmde_speed", "training", "--way", way, *given],
            check=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        told[way] = json.loads(done.stdout.splitlines()[-1])
        print(way, told[way], flush=True)
    lines = ["| a training step of HMDE, lower encoder learning | seconds | peak memory, MB |", "|---|---:|---:|"]
    lines += [f"| {name} | {told[way]['seconds']:.1f} | {told[way]['mb']:,.0f} |" for way, name in WAYS.items()]
    times = told["plain"]["seconds"] / told["ours"]["seconds"]
    lines += ["", f"{times:.1f} times as many steps a second; {batch} triples of help pages in {len(LANGS)} languages."]
    command = f"python -m benchmarks.hmde_speed training --batch {batch} --pages {count} --steps {steps}"
    harness.write("HMDE: training speed", command, lines)


def encoding(model: Path, count: int, rounds: int) -> None:
    """Encode the same pages by both methods in turn and write the section."""
    some = pages(count)
    folder = ModelFolder.open(model)
    whole, lower = (open_encoder(folder, method, device="cpu") for method in ("hmde", "sentences"))
    seconds = harness.in_turn(
        {"hmde": lambda: whole.encode_documents(some), "sentences": lambda: lower.encode_documents(some)}, rounds
    )
    ratio = harness.ratio(seconds["hmde"], seconds["sentences"])
    lines = [
        f"{len(some)} help pages in {len(LANGS)} languages: *hmde* takes {ratio} times what *sentences* with the same "
        f"lower encoder takes; {len(some) / min(seconds['hmde']):.1f} and {len(some) / min(seconds['sentences']):.1f} "
        "pages a second."
    ]
    command = f"python -m benchmarks.hmde_speed encoding --model FOLDER --pages {count} --rounds {rounds}"
    harness.write("HMDE: encoding", command, lines)


def main() -> None:
    """Do one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["training", "encoding"])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--pages", type=int, default=30)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, help="a trained folder")
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        measure(arguments.way, arguments.batch, arguments.pages, arguments.steps)
    elif arguments.what == "training":
        training(arguments.batch, arguments.pages, arguments.steps)
    else:
        encoding(arguments.model, arguments.pages, arguments.rounds)


if __name__ == "__main__":
    main()
