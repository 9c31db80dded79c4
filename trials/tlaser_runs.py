"""Runs of T-LASER, cT-LASER and LASER at equal training tokens, and whether the paper's order holds among them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from encoders.errors import BadInput
from encoders.tlaser.settings import NAMES, Variant


class Run(NamedTuple):
    """A model's figures, means over pairs of languages and over splits."""

    tokens: int
    error: float
    cross: float
    same: float


def read_runs(file: Path) -> dict[Variant, dict[int, Run]]:
    """Runs by variant and seed; of two of one model the later.

    Raises:
        BadInput: they are not of the same languages and steps, or two of one seed not of the same tokens.
    """
    told = {
        (run["variant"], run["seed"]): run for run in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    }
    alike = {(tuple(run.get("languages", [])), run["steps"]) for run in told.values()}
    tokens = {(run["seed"], run["tokens"]) for run in told.values()}
    if len(alike) > 1 or not all(languages for languages, _ in alike) or len(tokens) > len(dict(tokens)):
        raise BadInput(f"{file} has runs of unlike languages, steps or tokens; measure like ones into a new file")
    runs: dict[Variant, dict[int, Run]] = {}
    for (variant, seed), run in told.items():
        means = (float(np.mean(values)) for values in (list(run["errors"].values()), run["cross"], run["same"]))
        runs.setdefault(variant, {})[seed] = Run(run["tokens"], *means)
    return runs


def order(runs: Mapping[Variant, Mapping[int, Run]]) -> list[str]:
    """In how many seeds cT-LASER is where the paper has it; nothing where it can't be compared."""
    wins = {}
    for other in ("t", "laser"):
        seeds = sorted(runs.get("ct", {}).keys() & runs.get(other, {}).keys())
        if seeds:
            ours, theirs = ([runs[variant][seed] for seed in seeds] for variant in ("ct", other))
            below = sum(a.error < b.error for a, b in zip(ours, theirs, strict=True))
            wins[f"search error below {NAMES[other]}'s"] = below, len(seeds)
            if other == "t":
                least = sum(a.cross >= b.cross for a, b in zip(ours, theirs, strict=True))
                wins[f"cross at least {NAMES[other]}'s"] = least, len(seeds)
    if not wins:
        return []
    said = "; ".join(f"{what} in {count} of {seeds} seeds" for what, (count, seeds) in wins.items())
    holds = all(count == seeds for count, seeds in wins.values())
    return ["", f"cT-LASER: {said}. The paper's order {'holds' if holds else 'does not hold'} here."]
