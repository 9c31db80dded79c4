"""T-LASER, cT-LASER and LASER at equal training tokens on LibreOffice's sentences.

``compare`` trains a model, measures it and appends a line to a file; ``measure`` measures all trained models of a
folder again; ``table`` writes the section of a file: of a model's lines the last counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.classification import accuracies
from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.folder.model_folder import ModelFolder
from encoders.methods.method_registry import open_encoder
from encoders.tlaser.similarity import search_error
from encoders.tlaser.tlaser_settings import NAMES, Variant, preset
from papers.classification import Averages
from trials.tlaser_runs import order, read_runs, run_name

SPLITS = 5


def sentences(languages: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """LibreOffice's sentences by part (``train``, ``validation``, ``test``), as rows of texts by language."""
    rows: dict[str, dict[str, str]] = {}
    for lang in languages:
        for sid, text, *_ in harness.tsv(f"lostrings/{lang}.tsv.gz"):
            rows.setdefault(sid, {})[lang] = text
    parts: dict[str, list[dict[str, str]]] = {"train": [], "validation": [], "test": []}
    for sid, texts in sorted(rows.items()):
        parts[{0: "test", 1: "validation"}.get(int(sid[1:]) % 10, "train")].append(texts)
    return parts


def test_errors(encoder: Encoder, rows: Sequence[Mapping[str, str]], languages: Sequence[str]) -> dict[str, float]:
    """Similarity-search error of each ordered pair of languages on the test sentences.

    ``encoder`` takes a text as one sentence, as validation does: method *first*.
    """
    errors = {}
    for source, target in permutations(languages, 2):
        aligned = [row for row in rows if source in row and target in row]
        vectors = [
            encoder.encode_documents([Document("", lang, row[lang]) for row in aligned]).vectors
            for lang in (source, target)
        ]
        errors[f"{source}-{target}"] = search_error(*vectors)
    return errors


def classify(encoder: Encoder, languages: Sequence[str]) -> list[Averages]:
    """Zero-shot classification of Debian's package descriptions, several splits by package."""
    documents = [page for lang in languages for page in harness.documents(harness.read("ddtp", lang), lang)]
    return accuracies(documents, encoder.encode_documents(documents).vectors, SPLITS)


def compare(
    variant: Variant,
    seed: int,
    steps: int,
    languages: Sequence[str],
    work: Path,
    out: Path,
    constraint: Mapping[str, Any],
) -> None:
    """Train a variant with a seed and measure it; continues a training that was interrupted.

    ``constraint`` has settings of the distance constraint that differ from the preset's.
    """
    from indexer.training.tlaser_training import train_tlaser

    parts = sentences(languages)
    plan = preset("small", variant)
    plan = replace(
        plan,
        training=replace(plan.training, steps=steps, seed=seed),
        constraint=replace(plan.constraint, **constraint),
    )
    setting = setting_name(constraint)
    work.mkdir(parents=True, exist_ok=True)
    train, validation = (harness.write_records(parts[name], work / f"{name}.jsonl") for name in ("train", "validation"))
    report = train_tlaser(
        [train],
        work / f"{variant}{setting.replace(' ', '_')}-{seed}",
        plan,
        validation=[validation],
        precision="fp32",
        device="cpu",
        console=Console(),
    )
    measure(report.folder, variant, seed, parts["test"], languages, out, setting)


def setting_name(constraint: Mapping[str, Any]) -> str:
    """Settings of the distance constraint in words; empty if there are none."""
    return "".join(f" {name}={value}" for name, value in constraint.items())


def measure(
    folder: ModelFolder,
    variant: Variant,
    seed: int,
    rows: Sequence[Mapping[str, str]],
    languages: Sequence[str],
    out: Path,
    setting: str = "",
) -> None:
    """Measure a trained model, and append a line to a file."""
    curve = [json.loads(line) for line in (folder.path / "curve.jsonl").read_text(encoding="utf-8").splitlines()]
    errors = test_errors(open_encoder(folder, "first", device="cpu"), rows, languages)
    accuracies_by_split = classify(open_encoder(folder, "sentences", device="cpu"), languages)
    record = {
        "variant": variant + setting,
        "seed": seed,
        "languages": list(languages),
        "steps": curve[-1]["step"],
        "tokens": curve[-1]["tokens"],
        "best_step": min(curve, key=lambda row: row["error"])["step"],
        "validation": [row["error"] for row in curve],
        "errors": errors,
        "cross": [means.cross for means in accuracies_by_split],
        "same": [means.same for means in accuracies_by_split],
    }
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def measure_all(work: Path, languages: Sequence[str], out: Path) -> None:
    """Measure every finished model of a folder that ``compare`` filled."""
    rows = sentences(languages)["test"]
    for variant in NAMES:
        for path in sorted(work.glob(f"{variant}-[0-9]*")):
            if path.suffix != ".training":
                measure(ModelFolder.open(path), variant, int(path.name.rpartition("-")[2]), rows, languages, out)
                print(f"{path} measured")


def table(file: Path) -> None:
    """Write the section of a file of comparisons: means over seeds, and their spread.

    Without a model of each kind the section is that of the distance constraint.
    """
    runs = read_runs(file)
    lines = ["| | seeds | target tokens | search error | cross | same |", "|---|---:|---:|---:|---:|---:|"]
    for variant in sorted(runs, key=lambda name: (list[str](NAMES).index(name.partition(" ")[0]), name)):
        by_seed = list(runs[variant].values())
        figures = 100 * np.array([run[1:] for run in by_seed])
        cells = " | ".join(harness.mean_and_range(column) for column in figures.T)
        tokens = f"{np.mean([run.tokens for run in by_seed]):,.0f}"
        lines.append(f"| {run_name(variant)} | {len(by_seed)} | {tokens} | {cells} |")
    section = "T-LASER" if {"t", "ct", "laser"} <= runs.keys() else "T-LASER, the distance constraint"
    harness.write(section, "tlaser table", [*lines, *order(runs)])


def main() -> None:
    """Compare, measure again, or write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["compare", "measure", "table"])
    parser.add_argument("--variant", choices=list(NAMES), default="ct")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--languages", default="de,en,es")
    parser.add_argument("--beta", type=float, help="β of the distance constraint; λ is half of it")
    parser.add_argument("--margin", type=float, help="α")
    parser.add_argument("--negatives", type=int, help="N_s")
    parser.add_argument("--summed", type=int, choices=[0, 1], help="1: a sentence's translation loss is a sum")
    parser.add_argument("--squared", type=int, choices=[0, 1], help="0: distances are norms, not squared norms")
    parser.add_argument("--work", type=Path, default=Path("tlaser-runs"), help="models and checkpoints")
    parser.add_argument("--file", type=Path, default=Path("tlaser.jsonl"))
    arguments = parser.parse_args()
    languages = arguments.languages.split(",")
    if arguments.what == "compare":
        names = ("beta", "margin", "negatives", "summed", "squared")
        stated = {name: value for name in names if (value := getattr(arguments, name)) is not None}
        if "beta" in stated:
            stated["lam"] = stated["beta"] / 2
        compare(arguments.variant, arguments.seed, arguments.steps, languages, arguments.work, arguments.file, stated)
    elif arguments.what == "measure":
        measure_all(arguments.work, languages, arguments.file)
    else:
        table(arguments.file)


if __name__ == "__main__":
    main()
