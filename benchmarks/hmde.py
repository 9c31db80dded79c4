"""A training step of HMDE with a lower encoder that learns, against a plain loop over documents padded to 32 × 128."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from itertools import islice
from time import perf_counter
from typing import Any

from benchmarks import results, sample
from encoders.console import Console
from encoders.document import Document
from encoders.hmde.triples import Rows, Triples, page_of
from encoders.hmde.upper import UpperShape
from onnx_export.models import DEFAULT

LANGUAGES = ("de", "en", "fr", "it")


def pages(count: int) -> list[Document]:
    """Help pages of the same concepts in four languages."""
    found: list[Document] = []
    for lang in LANGUAGES:
        records = (one for one in sample.records("lohelp") if one["lang"] == lang)
        for one in islice(records, count):
            fields = {"concept": one["concept"], "label": one["label"]}
            found.append(Document(one["id"], lang, one["text"], one["title"], fields))
    return found


def prepared(batch: int, count: int, steps: int) -> tuple[Any, Any, list[Rows]]:
    """The lower encoder with its pages, the upper one, and the triples of each step."""
    import torch

    from onnx_export.hmde import base
    from onnx_export.hmde.model import Upper
    from onnx_export.hmde.settings import Settings

    torch.manual_seed(0)
    documents = pages(count)
    lower = base.trained(DEFAULT, Settings(), "cpu", Console(quiet=True)).lower
    lower.take([lower.prepare(documents)])
    triples = Triples([page_of(document.lang, document.fields) for document in documents])
    draws = [triples.draw(step * batch, batch) for step in range(steps)]
    return lower, Upper(UpperShape(384, heads=6)), draws


def plain(lower: Any, upper: Any, triples: Rows) -> None:
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
    contrastive_loss(first, second, negative, torch.arange(len(triples)), 0.05).backward()  # type: ignore[no-untyped-call]


def ours(lower: Any, upper: Any, triples: Rows) -> None:
    """One step as training does it."""
    import numpy as np
    import torch

    from onnx_export.hmde.lower import each
    from onnx_export.hmde.model import contrastive_loss

    rows, places = np.unique(triples, return_inverse=True)
    counts = lower.lengths()[rows]
    flat = lower.sentences(rows.tolist(), training=1)
    stack = torch.nn.utils.rnn.pad_sequence(list(each(counts.tolist(), flat)), batch_first=True)
    mask = np.arange(stack.shape[1])[None, :] < counts[:, None]
    vectors = upper(stack, torch.from_numpy(mask.astype(np.int64)))
    first, second, negative = (vectors[torch.from_numpy(one)] for one in places.reshape(triples.shape).T)
    contrastive_loss(first, second, negative, torch.arange(len(triples)), 0.05).backward()  # type: ignore[no-untyped-call]
    lower.learn()


def measure(way: str, batch: int, count: int, steps: int) -> None:
    """Seconds a step and peak memory of one way, as JSON on stdout; a process of its own, for its memory."""
    lower, upper, draws = prepared(batch, count, steps + 1)
    step = plain if way == "plain" else ours
    step(lower, upper, draws[0])
    start = perf_counter()
    for triples in draws[1:]:
        step(lower, upper, triples)
    seconds = (perf_counter() - start) / steps
    print(json.dumps({"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main() -> None:
    """Measure both and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--way", choices=("plain", "ours"))
    arguments = parser.parse_args()
    if arguments.way:
        measure(arguments.way, arguments.batch, arguments.pages, arguments.steps)
        return
    told = {}
    for way in ("plain", "ours"):
        given = [f"--{name}={getattr(arguments, name)}" for name in ("batch", "pages", "steps")]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.hmde", "--way", way, *given],
            check=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        told[way] = json.loads(done.stdout.splitlines()[-1])
    lines = ["| a training step of HMDE, lower encoder learning | seconds | peak memory, MB |", "|---|---:|---:|"]
    for way, name in (("plain", "documents padded to 32 × 128, one graph"), ("ours", "ours")):
        lines.append(f"| {name} | {told[way]['seconds']:.1f} | {told[way]['mb']:,.0f} |")
    times = told["plain"]["seconds"] / told["ours"]["seconds"]
    lines += [
        "",
        f"{times:.1f} times as many steps a second; {arguments.batch} triples of help pages in four languages.",
    ]
    results.write("HMDE training", "python -m benchmarks.hmde", lines)


if __name__ == "__main__":
    main()
