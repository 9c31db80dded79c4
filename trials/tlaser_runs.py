"""Trainings of T-LASER, cT-LASER and LASER at equal training tokens, and whether the paper's order holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from encoders.errors import BadInput
from encoders.tlaser.tlaser_settings import NAMES, Variant


class ModelScores(NamedTuple):
    """A trained model's figures: means over pairs of languages and over splits."""

    tokens: int
    error: float
    cross: float
    same: float


def read_runs(file: Path) -> dict[str, dict[int, ModelScores]]:
    """Runs by variant and seed; of two runs of one model the later counts.

    Settings of the distance constraint that differ from the preset's follow the variant: ``ct margin=1.0``.

    Raises:
        BadInput: the runs differ in languages or steps, or two runs of one seed differ in tokens.
    """
    records = {
        (record["variant"], record["seed"]): record
        for record in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    }
    conditions = {(tuple(record.get("languages", [])), record["steps"]) for record in records.values()}
    tokens = {(record["seed"], record["tokens"]) for record in records.values()}
    if len(conditions) > 1 or not all(languages for languages, _ in conditions) or len(tokens) > len(dict(tokens)):
        raise BadInput(f"{file} has runs of unlike languages, steps or tokens; measure like ones into a new file")
    runs: dict[str, dict[int, ModelScores]] = {}
    for (variant, seed), record in records.items():
        figures = (list(record["errors"].values()), record["cross"], record["same"])
        runs.setdefault(variant, {})[seed] = ModelScores(
            record["tokens"], *(float(np.mean(values)) for values in figures)
        )
    return runs


def run_name(variant: str) -> str:
    """A variant and its settings as a table shows them."""
    name, _, settings = variant.partition(" ")
    return ", ".join([NAMES[cast("Variant", name)], *settings.split()])


def order(runs: Mapping[str, Mapping[int, ModelScores]]) -> list[str]:
    """Lines that say in how many seeds cT-LASER ranks as in the paper; none if no seed has two variants to compare."""
    wins = {}
    compared_variants: tuple[Variant, ...] = ("t", "laser")
    for variant in compared_variants:
        seeds = sorted(runs.get("ct", {}).keys() & runs.get(variant, {}).keys())
        if seeds:
            pairs = [(runs["ct"][seed], runs[variant][seed]) for seed in seeds]
            below = sum(ct.error < compared.error for ct, compared in pairs)
            wins[f"search error below {NAMES[variant]}'s"] = below, len(seeds)
            if variant == "t":
                least = sum(ct.cross >= compared.cross for ct, compared in pairs)
                wins[f"cross at least {NAMES[variant]}'s"] = least, len(seeds)
    if not wins:
        return []
    results = "; ".join(f"{claim} in {count} of {seeds} seeds" for claim, (count, seeds) in wins.items())
    holds = all(count == seeds for count, seeds in wins.values())
    return ["", f"cT-LASER: {results}. The paper's order {'holds' if holds else 'does not hold'} here."]
