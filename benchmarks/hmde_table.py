"""The section of ``benchmarks.hmde``: what was measured, and each seed and their mean against the best baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import LANGUAGES
from benchmarks.hmde_vectors import BASELINES, METHODS
from query.evaluation.significance import compare, corrected

WAYS = ("plain cosine", "centred", "calibrated")
SPLITS = 3
COLLECTIONS = ("lohelp", "ntrex")

Precisions = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Average precision by system, way to rank and query."""


def lines(folder: Path, models: Sequence[str]) -> list[str]:
    """Tables of what the parts wrote; a system that was not measured to its end is named and left out.

    Args:
        folder: where they wrote it.
        models: trained with different seeds.
    """
    found: list[str] = []
    for collection in COLLECTIONS:
        told, missing = _read(folder / f"{collection}.json", models, len(WAYS))
        if told:
            found += [*_retrieval(collection, told, models), *missing]
    told, missing = _read(folder / "ddtp.json", models, SPLITS)
    if told:
        found += [*_classification(told, models), *missing]
    return found


def _read(file: Path, models: Sequence[str], whole: int) -> tuple[dict[str, Any], list[str]]:
    """What a part wrote of each system that is whole, and a line that names the others."""
    told = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    there = {name: told[name] for name in (*BASELINES, *models) if len(told.get(name, ())) == whole}
    missing = [name for name in (*METHODS, *models) if name not in there]
    return there, [f"Not measured: {', '.join(missing)}.", ""] if missing else []


def _retrieval(collection: str, told: Precisions, models: Sequence[str]) -> list[str]:
    baselines, trained = _sides(told, models)
    systems = {**{name: told[name] for name in baselines}, **_with_mean({name: told[name] for name in trained})}
    means = {way: {name: float(np.mean(list(one[way].values()))) for name, one in systems.items()} for way in WAYS}
    some = next(iter(systems.values()))[WAYS[0]]
    topics = {qid.rpartition(".")[0] for qid in some}
    found = [
        f"**{collection}**, MAP, {len(topics)} topics in {len(LANGUAGES)} languages ({len(some):,} queries):",
        "",
        f"| | {' | '.join(WAYS)} |",
        f"|---|{'---:|' * len(WAYS)}",
    ]
    found += [f"| {_shown(name)} | {' | '.join(f'{means[way][name]:.3f}' for way in WAYS)} |" for name in systems]
    found.append("")
    if baselines and trained:
        found += [
            line
            for way in WAYS[1:]
            for line in _compared(way, max(baselines, key=lambda name: means[way][name]), systems, baselines)
        ]
    return found


def _compared(way: str, best: str, systems: Precisions, baselines: Sequence[str]) -> list[str]:
    """Each trained system against the best baseline of a way, corrected for all of them."""
    values = {name: {q: {"AP": value} for q, value in one[way].items()} for name, one in systems.items()}
    trained = [name for name in systems if name not in baselines]
    compared = corrected(
        [
            one
            for name in trained
            for one in compare(best, values[best], name, values[name], ["AP"], topic=lambda qid: qid.rpartition(".")[0])
        ]
    )
    told = ", ".join(
        f"{one.b} {one.difference:+.3f} (p = {one.p_randomisation:.2g}, Holm {one.p_holm:.2g})" for one in compared
    )
    return [f"{way[0].upper()}{way[1:]}, against *{best}*: {told}.", ""]


def _with_mean(trained: Precisions) -> Precisions:
    """The systems, and as one more the mean of each query's average precision over them."""
    if len(trained) < 2:
        return trained
    some = next(iter(trained.values()))
    mean = {way: {q: float(np.mean([one[way][q] for one in trained.values()])) for q in some[way]} for way in WAYS}
    return {**trained, f"mean of {len(trained)} seeds": mean}


def _classification(told: Mapping[str, Sequence[float]], models: Sequence[str]) -> list[str]:
    baselines, trained = _sides(told, models)
    systems = {name: 100 * np.array(told[name]) for name in (*baselines, *trained)}
    if len(trained) > 1:
        systems[f"mean of {len(trained)} seeds"] = np.mean([systems[name] for name in trained], axis=0)
    found = [
        "**ddtp**, zero-shot accuracy in another language, mean over splits (spread):",
        "",
        "| | cross |",
        "|---|---:|",
    ]
    for name, values in systems.items():
        found.append(f"| {_shown(name)} | {values.mean():.1f} ({values.min():.1f} … {values.max():.1f}) |")
    return [*found, ""]


def _sides(told: Mapping[str, object], models: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of the baselines and of the trained systems that were measured."""
    return [name for name in told if name in BASELINES], [name for name in told if name in models]


def _shown(name: str) -> str:
    return f"*{name}*" if name in BASELINES else f"HMDE, {name}"
