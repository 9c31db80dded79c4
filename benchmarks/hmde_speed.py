"""HMDE's speed: a training step against documents padded to 32 × 128, and encoding against *sentences*."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.hmde_vectors import documents
from encoders.console import Console
from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.triples import Rows, Triples, page_of
from encoders.hmde.upper import UpperShape
from encoders.methods.method_registry import open_encoder
from onnx_export.hmde.hmde_settings import Settings
from onnx_export.models import DEFAULT

LANGS = ("de", "en", "fr", "it")
STEPS = {"plain": "documents padded to 32 × 128, one graph", "ours": "ours"}
"""The steps that are compared."""


def pages(count: int) -> list[Document]:
    """Help pages of the same concepts in four languages."""
    return [page for lang in LANGS for page in documents("lohelp", lang)[:count]]


def plain(lower: Any, upper: Any, triples: Rows, settings: Settings) -> None:
    """One step without the product's savings: every document 32 sentences of 128 tokens, one graph of everything."""
    import numpy as np
    import torch

    from onnx_export.hmde.upper_model import contrastive_loss

    shape = upper.shape
    vectors = []
    for column in triples.T:
        ids = np.full((len(column), shape.sentences, shape.tokens), 1, dtype=np.int64)
        mask = np.zeros_like(ids)
        sentence_mask = np.zeros((len(column), shape.sentences), dtype=np.int64)
        mask[:, :, 0] = 1
        for index, row in enumerate(column.tolist()):
            for sentence, tokens in enumerate(lower.tokens(row)):
                ids[index, sentence, : len(tokens)] = tokens
                mask[index, sentence, : len(tokens)] = 1
                sentence_mask[index, sentence] = 1
        flat = lower.module(*(torch.from_numpy(array.reshape(-1, shape.tokens)) for array in (ids, mask)))
        vectors.append(upper(flat.reshape(len(column), shape.sentences, -1), torch.from_numpy(sentence_mask)))
    first, second, negative = vectors
    numbers = torch.arange(len(triples))
    contrastive_loss(first, second, negative, numbers, settings.temperature).backward()  # type: ignore[no-untyped-call]


def measure(step: str, batch: int, count: int, steps: int) -> None:
    """Print the seconds of a step and the peak memory in MB as JSON."""
    import torch

    from onnx_export.hmde import lower_base
    from onnx_export.hmde.objective import Objective
    from onnx_export.hmde.upper_model import Upper

    torch.manual_seed(0)
    settings = Settings(batch=batch)
    help_pages = pages(count)
    lower: Any = lower_base.open_trained(DEFAULT, settings, "cpu", Console(quiet=True)).lower
    lower.take([lower.prepare(help_pages)])
    triples = Triples([page_of(page.lang, page.fields) for page in help_pages])
    upper = Upper(UpperShape(384))
    objective = Objective(upper, lower, triples, settings)
    seconds = []
    for number in range(steps + 1):
        with harness.Stopwatch() as watch:
            if step == "plain":
                lower.module.train()
                plain(lower, upper, triples.draw(number * batch, batch), settings)
            else:
                objective.loss(number, number).backward()  # type: ignore[no-untyped-call]
                lower.learn()
        seconds.append(watch.seconds)
    print(json.dumps({"seconds": sum(seconds[1:]) / steps, "mb": harness.peak_memory()}))


def training(options: argparse.Namespace) -> None:
    """Measure both steps and write the section."""
    command = harness.command("hmde_speed training", options, "batch", "pages", "steps")
    measured = {}
    for step in STEPS:
        measured[step] = harness.measure_apart(*command.split(), "--way", step)
        print(step, measured[step], flush=True)
    lines = ["| a training step of HMDE, lower encoder learning | seconds | peak memory, MB |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {measured[step]['seconds']:.1f} | {measured[step]['mb']:,.0f} |" for step, name in STEPS.items()
    ]
    times = measured["plain"]["seconds"] / measured["ours"]["seconds"]
    languages = f"{len(LANGS)} languages"
    lines += ["", f"{times:.1f} times as many steps a second; {options.batch} triples of help pages in {languages}."]
    harness.write("HMDE: training speed", command, lines)


def encoding(options: argparse.Namespace) -> None:
    """Encode the same pages by both methods in turn and write the section."""
    help_pages = pages(options.pages)
    folder = ModelFolder.open(options.model)
    hmde, lower = (open_encoder(folder, method, device="cpu") for method in ("hmde", "sentences"))
    jobs = {"hmde": lambda: hmde.encode_documents(help_pages), "sentences": lambda: lower.encode_documents(help_pages)}
    seconds = harness.in_turn(jobs, options.rounds)
    ratio = harness.ratio(seconds["hmde"], seconds["sentences"])
    rates = [len(help_pages) / min(seconds[method]) for method in jobs]
    lines = [
        f"{len(help_pages)} help pages in {len(LANGS)} languages: *hmde* takes {ratio} times what *sentences* with the "
        f"same lower encoder takes; {rates[0]:.1f} and {rates[1]:.1f} pages a second."
    ]
    command = harness.command("hmde_speed encoding --model FOLDER", options, "pages", "rounds")
    harness.write("HMDE: encoding", command, lines)


def main() -> None:
    """Measure training or encoding, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["training", "encoding"])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--pages", type=int, default=30)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, help="a trained folder")
    parser.add_argument("--way", choices=list(STEPS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        measure(arguments.way, arguments.batch, arguments.pages, arguments.steps)
    elif arguments.what == "training":
        training(arguments)
    else:
        encoding(arguments)


if __name__ == "__main__":
    main()
