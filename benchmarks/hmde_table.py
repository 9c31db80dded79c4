"""The section of ``benchmarks.hmde``: what was measured, and each seed and their mean against the best baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import LANGUAGES, mean, mean_and_range, topic_of
from benchmarks.hmde_vectors import BASELINES, METHODS
from query.measures.significance import compare, corrected

RANKINGS = ("plain cosine", "centred", "without mates", "calibrated")
SPLITS = 3
COLLECTIONS = ("lohelp", "ntrex")

Precisions = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Average precision by system, ranking and query."""


def read(file: Path) -> dict[str, Any]:
    """What a part has measured, by system; nothing if there is no file yet."""
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return measured


def lines(folder: Path, models: Sequence[str]) -> list[str]:
    """Tables of what the parts measured; an incompletely measured system is named and left out.

    Args:
        folder: where the parts wrote.
        models: names of the models, trained with different seeds.
    """
    tables: list[str] = []
    for collection in COLLECTIONS:
        measured, missing = _complete(folder / f"{collection}.json", models, len(RANKINGS))
        if measured:
            tables += [*_retrieval(collection, measured, models), *missing]
    measured, missing = _complete(folder / "ddtp.json", models, SPLITS)
    if measured:
        tables += [*_classification(measured, models), *missing]
    return tables


def _complete(file: Path, models: Sequence[str], count: int) -> tuple[dict[str, Any], list[str]]:
    """The systems of which a part measured ``count`` things, and a line that names the other systems."""
    measured = read(file)
    complete = {name: measured[name] for name in (*BASELINES, *models) if len(measured.get(name, ())) == count}
    missing = [name for name in (*METHODS, *models) if name not in complete]
    return complete, [f"Not measured: {', '.join(missing)}.", ""] if missing else []


def _retrieval(collection: str, measured: Precisions, models: Sequence[str]) -> list[str]:
    baselines, trained = _sides(measured, models)
    systems = {
        **{name: measured[name] for name in baselines},
        **_with_mean({name: measured[name] for name in trained}),
    }
    means = {ranking: {name: mean(by_ranking[ranking]) for name, by_ranking in systems.items()} for ranking in RANKINGS}
    query_ids = next(iter(systems.values()))[RANKINGS[0]]
    topics = {topic_of(query_id) for query_id in query_ids}
    table = [
        f"**{collection}**, MAP, {len(topics)} topics in {len(LANGUAGES)} languages ({len(query_ids):,} queries):",
        "",
        f"| | {' | '.join(RANKINGS)} |",
        f"|---|{'---:|' * len(RANKINGS)}",
        *(
            f"| {_shown(name)} | {' | '.join(f'{means[ranking][name]:.3f}' for ranking in RANKINGS)} |"
            for name in systems
        ),
        "",
    ]
    if baselines and trained:
        for ranking in RANKINGS[1:]:
            best = max(baselines, key=means[ranking].__getitem__)
            table += _comparison(ranking, best, systems, baselines)
    return table


def _comparison(ranking: str, best: str, systems: Precisions, baselines: Sequence[str]) -> list[str]:
    """Each trained system against the best baseline of a ranking, corrected for all of them."""
    values = {
        name: {query_id: {"AP": value} for query_id, value in by_ranking[ranking].items()}
        for name, by_ranking in systems.items()
    }
    trained = [name for name in systems if name not in baselines]
    comparisons = corrected(
        [
            comparison
            for name in trained
            for comparison in compare(best, values[best], name, values[name], ["AP"], topic=topic_of)
        ]
    )
    sentences = ", ".join(
        f"{comparison.run} {comparison.difference:+.3f} (p = {comparison.p_randomisation:.2g}, "
        f"Holm {comparison.p_holm:.2g})"
        for comparison in comparisons
    )
    return [f"{ranking[0].upper()}{ranking[1:]}, against *{best}*: {sentences}.", ""]


def _with_mean(trained: Precisions) -> Precisions:
    """The systems, and as another system the mean over them of each query's average precision."""
    if len(trained) < 2:
        return trained
    first = next(iter(trained.values()))
    means = {
        ranking: {
            query_id: float(np.mean([by_ranking[ranking][query_id] for by_ranking in trained.values()]))
            for query_id in first[ranking]
        }
        for ranking in RANKINGS
    }
    return {**trained, f"mean of {len(trained)} seeds": means}


def _classification(measured: Mapping[str, Sequence[float]], models: Sequence[str]) -> list[str]:
    baselines, trained = _sides(measured, models)
    systems = {name: 100 * np.array(measured[name]) for name in (*baselines, *trained)}
    if len(trained) > 1:
        systems[f"mean of {len(trained)} seeds"] = np.mean([systems[name] for name in trained], axis=0)
    return [
        "**ddtp**, zero-shot accuracy in another language, mean over splits (spread):",
        "",
        "| | cross |",
        "|---|---:|",
        *(f"| {_shown(name)} | {mean_and_range(values)} |" for name, values in systems.items()),
        "",
    ]


def _sides(measured: Mapping[str, object], models: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of the baselines and of the trained systems that were measured."""
    return [name for name in measured if name in BASELINES], [name for name in measured if name in models]


def _shown(name: str) -> str:
    return f"*{name}*" if name in BASELINES else f"HMDE, {name}"
