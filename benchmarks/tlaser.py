"""T-LASER, cT-LASER and LASER at equal training tokens on LibreOffice's sentences.

``compare`` trains, measures and appends a line to a file; ``table`` makes the page's section of that file.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks import results
from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.methods import open_encoder
from encoders.tlaser.settings import NAMES, Variant, preset
from encoders.tlaser.similarity import search_error
from query.classification import Averages, Labelled, Part, averages, split, zero_shot

SPLITS = 5


def sentences(languages: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """LibreOffice's sentences as rows of texts by language: ``train``, ``validation`` and ``test`` by number."""
    rows: dict[str, dict[str, str]] = {}
    for lang in languages:
        with gzip.open(results.DATA / "lostrings" / f"{lang}.tsv.gz", "rt", encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                sid, _, text = line.rstrip("\n").partition("\t")
                rows.setdefault(sid, {})[lang] = text
    parts: dict[str, list[dict[str, str]]] = {"train": [], "validation": [], "test": []}
    for sid, texts in sorted(rows.items()):
        parts[{0: "test", 1: "validation"}.get(int(sid[1:]) % 10, "train")].append(texts)
    return parts


def test_errors(encoder: Encoder, rows: Sequence[Mapping[str, str]], languages: Sequence[str]) -> dict[str, float]:
    """Similarity-search error of each pair of languages on the test sentences, there and back."""
    errors = {}
    for one, other in permutations(languages, 2):
        both = [row for row in rows if one in row and other in row]
        vectors = [
            encoder.encode_documents([Document("", lang, row[lang]) for row in both]).vectors for lang in (one, other)
        ]
        errors[f"{one}-{other}"] = search_error(*vectors)
    return errors


def classified(encoder: Encoder, languages: Sequence[str]) -> list[Averages]:
    """Zero-shot classification of Debian's package descriptions, several splits by package."""
    documents = []
    for lang in languages:
        with gzip.open(results.DATA / "ddtp" / f"docs.{lang}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                one = json.loads(line)
                fields = {"label": one["label"], "concept": one["concept"]}
                documents.append(Document(one["id"], lang, one["text"], one["title"], fields))
    vectors = encoder.encode_documents(documents).vectors
    labels = np.array([document.fields["label"] for document in documents])
    langs = np.array([document.lang for document in documents])
    names: tuple[Part, ...] = ("train", "dev", "test")
    found = []
    for seed in range(SPLITS):
        parts = np.array(split(documents, seed))
        data = {
            lang: {
                part: Labelled(vectors[own], labels[own])
                for part in names
                for own in [(langs == lang) & (parts == part)]
            }
            for lang in languages
        }
        found.append(averages(zero_shot(data)))
    return found


def compare(variant: Variant, seed: int, steps: int, languages: Sequence[str], work: Path, out: Path) -> None:
    """Train a variant with a seed, measure it, and append what was found to a file; goes on where it was stopped."""
    from indexer.tlaser_training import train_tlaser

    parts = sentences(languages)
    plan = preset("small", variant)
    plan = replace(plan, training=replace(plan.training, steps=steps, seed=seed))
    work.mkdir(parents=True, exist_ok=True)
    for name in ("train", "validation"):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in parts[name])
        (work / f"{name}.jsonl").write_text(text, encoding="utf-8")
    report = train_tlaser(
        [str(work / "train.jsonl")],
        work / f"{variant}-{seed}",
        plan,
        validation=[str(work / "validation.jsonl")],
        precision="fp32",
        device="cpu",
        console=Console(),
    )
    curve = (report.folder.path / "curve.jsonl").read_text(encoding="utf-8").splitlines()
    encoder = open_encoder(report.folder, "sentences", device="cpu")
    errors = test_errors(encoder, parts["test"], languages)
    found = classified(encoder, languages)
    told = {
        "variant": variant,
        "seed": seed,
        "steps": steps,
        "tokens": json.loads(curve[-1])["tokens"],
        "best_step": report.best[0],
        "validation": [json.loads(row)["error"] for row in curve],
        "errors": errors,
        "cross": [one.cross for one in found],
        "same": [one.same for one in found],
    }
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


def table(file: Path) -> None:
    """Write the section of a file of comparisons: means over seeds, and their spread."""
    runs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lines = ["| | seeds | target tokens | search error | cross | same |", "|---|---:|---:|---:|---:|---:|"]
    for variant, name in NAMES.items():
        own = [run for run in runs if run["variant"] == variant]
        if own:
            errors = [float(np.mean(list(run["errors"].values()))) for run in own]
            cross, same = ([float(np.mean(run[what])) for run in own] for what in ("cross", "same"))
            cells = [_spread(values) for values in (errors, cross, same)]
            lines.append(f"| {name} | {len(own)} | {own[0]['tokens']:,} | {' | '.join(cells)} |")
    results.write("T-LASER", "python -m benchmarks.tlaser table", lines)


def _spread(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):.1f} ({100 * min(values):.1f} … {100 * max(values):.1f})"


def main() -> None:
    """Do one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["compare", "table"])
    parser.add_argument("--variant", choices=list(NAMES), default="ct")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--languages", default="de,en,es")
    parser.add_argument("--work", type=Path, default=Path("tlaser-runs"), help="models and checkpoints")
    parser.add_argument("--file", type=Path, default=Path("tlaser.jsonl"))
    arguments = parser.parse_args()
    languages = arguments.languages.split(",")
    if arguments.what == "compare":
        compare(arguments.variant, arguments.seed, arguments.steps, languages, arguments.work, arguments.file)
    else:
        table(arguments.file)


if __name__ == "__main__":
    main()
