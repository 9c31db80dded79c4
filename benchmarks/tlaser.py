"""T-LASER, cT-LASER and LASER at equal training tokens on LibreOffice's sentences, and training's speed.

``compare`` trains a model, measures it and appends a line to a file; ``table`` writes the section of a file: of a
model's lines the last counts. ``speed`` trains every variant for some steps.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks import harness
from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray
from encoders.folder.model_folder import ModelFolder
from encoders.machine.placement import Device
from encoders.methods.method_registry import open_encoder
from encoders.tlaser.similarity import search_error
from encoders.tlaser.tlaser_settings import NAMES, Variant, preset
from papers.classification import PARTS, Labelled, averages, split, zero_shot
from trials.documents import write_records

_LANGUAGES = ("de", "en", "es")
_SPLITS = 5


def sentences() -> dict[str, list[dict[str, str]]]:
    """LibreOffice's sentences by part (``train``, ``validation``, ``test``), as rows of texts by language."""
    rows: dict[str, dict[str, str]] = {}
    for lang in _LANGUAGES:
        for sid, text, *_ in harness.tsv(f"lostrings/{lang}.tsv.gz"):
            rows.setdefault(sid, {})[lang] = text
    parts: dict[str, list[dict[str, str]]] = {"train": [], "validation": [], "test": []}
    for sid, texts in sorted(rows.items()):
        parts[{0: "test", 1: "validation"}.get(int(sid[1:]) % 10, "train")].append(texts)
    return parts


def mean_error(encoder: Encoder, rows: Sequence[Mapping[str, str]]) -> float:
    """Mean similarity-search error over ordered pairs of languages; a text is one sentence: method *first*."""
    errors = []
    for source, target in permutations(_LANGUAGES, 2):
        aligned = [row for row in rows if source in row and target in row]
        vectors = [
            encoder.encode_documents([Document("", lang, row[lang]) for row in aligned]).vectors
            for lang in (source, target)
        ]
        errors.append(search_error(*vectors))
    return float(np.mean(errors))


def train(variant: Variant, seed: int, steps: int, device: Device, work: Path) -> tuple[ModelFolder, float]:
    """A model of the small preset, and the seconds of its training, which continues one that was interrupted."""
    from indexer.training.tlaser_training import train_tlaser

    plan = preset("small", variant)
    plan = replace(plan, training=replace(plan.training, steps=steps, seed=seed))
    work.mkdir(parents=True, exist_ok=True)
    parts = sentences()
    files = [write_records(parts[name], work / f"{name}.jsonl") for name in ("train", "validation")]
    with harness.Stopwatch() as watch:
        report = train_tlaser(
            files[:1], work / f"{variant}-{seed}", plan, validation=files[1:], precision="fp32", device=device,
            console=Console(),
        )  # fmt: skip
    return report.folder, watch.seconds


def accuracies(pages: Sequence[Document], vectors: FloatArray) -> list[dict[str, float]]:
    """Mean accuracies of zero-shot classification over pairs of languages, by split; ``vectors`` has a row a page."""
    labels = np.array([page.fields["label"] for page in pages])
    langs = np.array([page.lang for page in pages])
    means = []
    for seed in range(_SPLITS):
        parts = np.array(split(pages, seed))
        rows = {lang: {part: (langs == lang) & (parts == part) for part in PARTS} for lang in _LANGUAGES}
        data = {
            lang: {part: Labelled(vectors[chosen], labels[chosen]) for part, chosen in of_lang.items()}
            for lang, of_lang in rows.items()
        }
        means.append(averages(zero_shot(data)))
    return means


def trained_tokens(folder: ModelFolder) -> int:
    *_, last = (folder.path / "curve.jsonl").read_text(encoding="utf-8").splitlines()
    return int(json.loads(last)["tokens"])


def measured(folder: ModelFolder) -> dict[str, float]:
    pages = [page for lang in _LANGUAGES for page in harness.documents(harness.read("ddtp", lang), lang)]
    vectors = open_encoder(folder, "sentences", device="cpu").encode_documents(pages).vectors
    splits = accuracies(pages, vectors)
    return {
        "tokens": trained_tokens(folder),
        "search error": mean_error(open_encoder(folder, "first", device="cpu"), sentences()["test"]),
        "cross": float(np.mean([split["cross"] for split in splits])),
        "same": float(np.mean([split["same"] for split in splits])),
    }


def table(file: Path) -> list[str]:
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    runs = {(record["variant"], record["seed"]): record for record in records}
    rows = []
    for variant, name in NAMES.items():
        of_variant = [run for (trained, _), run in runs.items() if trained == variant]
        if of_variant:
            columns = [[100 * run[figure] for run in of_variant] for figure in ("search error", "cross", "same")]
            tokens = np.mean([run["tokens"] for run in of_variant])
            rows.append([name, len(of_variant), f"{tokens:,.0f}", *map(harness.mean_and_range, columns)])
    return harness.table(" | seeds | target tokens | search error | cross | same", rows)


@harness.benchmark(
    "T-LASER, {part}", ("compare", "table", "speed"), variant="ct", seed=0, steps=4000, device="cpu",
    work=Path("tlaser-runs"), file=Path("tlaser.jsonl"),
)  # fmt: skip
def measure(arguments: Namespace) -> list[str] | None:
    """Train and measure a model, or make the section; ``work`` has models and checkpoints."""
    if arguments.part == "table":
        return table(arguments.file)
    if arguments.part == "compare":
        folder, _ = train(arguments.variant, arguments.seed, arguments.steps, "cpu", arguments.work)
        record = {"variant": arguments.variant, "seed": arguments.seed, **measured(folder)}
        with arguments.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return None
    rows = []
    for variant, name in NAMES.items():
        with tempfile.TemporaryDirectory() as work:
            folder, seconds = train(variant, 0, arguments.steps, arguments.device, Path(work))
            rows.append([name, f"{trained_tokens(folder) / seconds:,.0f}"])
    return harness.table(" | target tokens/s, vocabulary and graph made too", rows)
