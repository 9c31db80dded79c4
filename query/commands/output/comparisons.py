"""Comparisons of runs for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from encoders.console import Console
from query.measures.significance import Comparison

_COMPARISON_NAMES = {
    "baseline": "a",
    "run": "b",
    "baseline_mean": "mean_a",
    "run_mean": "mean_b",
    "differences": "topics",
}
"""Names in JSON of a comparison's fields that have other names in Python."""


def show_comparisons(comparisons: Sequence[Comparison], console: Console) -> None:
    """Print a table of comparisons, and how many topics they left out."""
    console.table(
        [
            "measure",
            "run",
            ">mean",
            "against",
            ">mean",
            ">difference",
            ">effect",
            ">higher / lower / equal",
            ">p",
            ">p t-test",
            ">p Holm",
        ],
        [_comparison_row(comparison) for comparison in comparisons],
    )
    console.result(
        "p: two-sided randomisation test over topics; Holm: p corrected for all comparisons shown; *: below 0.05; "
        "effect: difference in standard deviations."
    )
    for baseline, run, left_out in dict.fromkeys(
        (comparison.baseline, comparison.run, comparison.left_out) for comparison in comparisons
    ):
        if left_out:
            console.warn(f"topics left out because only one of {baseline} and {run} has them: {left_out}")


def _comparison_row(comparison: Comparison) -> list[str]:
    constant = comparison.effect == 0 != comparison.difference  # every topic differs by the same amount
    return [
        comparison.measure,
        comparison.run,
        f"{comparison.run_mean:.3f}",
        comparison.baseline,
        f"{comparison.baseline_mean:.3f}",
        f"{comparison.difference:+.3f}",
        "–" if constant else f"{comparison.effect:+.2f}",
        f"{comparison.wins}/{comparison.losses}/{comparison.ties}",
        _p(comparison.p_randomisation),
        "–" if comparison.p_t is None or constant else _p(comparison.p_t),
        _p(comparison.p_holm) + ("*" if comparison.mark else ""),
    ]


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values."""
    return {_COMPARISON_NAMES.get(name, name): value for name, value in comparison.__dict__.items()}
