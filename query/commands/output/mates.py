"""Mate retrieval for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from encoders.console import Console
from encoders.maps.mate_scores import MateScores
from encoders.maps.parallel import Parallel
from encoders.wording import counted
from query.alignment.mate_retrieval_sweep import Point, Sweep


def show_mates(measured: Mapping[str, MateScores], name: str, parallel: Parallel, console: Console) -> None:
    """Show the mates that the encoder ``name`` finds, by the methods of a mapping."""
    console.table(
        ["method", ">rate", ">MRR"],
        [[method, f"{mates.rate:.3f}", f"{mates.mrr:.3f}"] for method, mates in measured.items()],
        title=f"Mate retrieval of {name}: {len(parallel.rows)} languages, all of "
        + counted(len(parallel.concepts), "concept"),
    )
    _emit([{"method": method, **asdict(mates)} for method, mates in measured.items()], name, parallel, console)


def show_sweep(points: Sequence[Point], sweep: Sweep, name: str, parallel: Parallel, console: Console) -> None:
    """Show the mates that the encoder ``name`` finds at each point of a sweep."""
    rows = [
        [
            point.method,
            point.value_text,
            f"{point.mean.rate:.3f} ± {point.spread.rate:.3f}",
            f"{point.mean.mrr:.3f} ± {point.spread.mrr:.3f}",
        ]
        for point in points
    ]
    title = (
        f"Mate retrieval of {name}: {len(parallel.rows) * (len(parallel.rows) - 1)} ordered pairs of "
        f"{len(parallel.rows)} languages, {counted(len(parallel.concepts), 'concept')}, "
        + counted(sweep.splits, "split")
    )
    console.table(["method", sweep.swept or "", ">rate", ">MRR"], rows, title=title)
    _emit([point.as_json() for point in points], name, parallel, console)


def _emit(points: Sequence[Mapping[str, Any]], name: str, parallel: Parallel, console: Console) -> None:
    languages, concepts = list(parallel.rows), len(parallel.concepts)
    console.emit({"encoder": name, "languages": languages, "concepts": concepts, "points": points})
