"""Comparisons of runs, and matrices of language pairs, for a person and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from encoders.console import Alert, Part, values_of
from encoders.phrases import counted
from encoders.table_layout import Table
from query.evaluation.pair_matrix import PairMatrix
from query.measures.quality_measures import mean_name
from query.measures.significance import ALPHA, HIGHER, LOWER, Comparison

_COMPARISON_NAMES = {
    "baseline": "a",
    "run": "b",
    "baseline_mean": "mean_a",
    "run_mean": "mean_b",
    "differences": "topics",
}
"""Names in JSON of a comparison's fields that have other names in Python."""


def comparison_parts(comparisons: Sequence[Comparison]) -> Iterator[Part]:
    """A table of comparisons, and how many topics they left out."""
    headings = "measure,run,>mean,against,>mean,>difference,>effect,>higher / lower / equal,>p,>p t-test,>p Holm"
    yield Table(headings.split(","), [_comparison_row(comparison) for comparison in comparisons])
    yield (
        "p: two-sided randomisation test over topics; Holm: p corrected for all comparisons shown; *: below 0.05; "
        "effect: difference in standard deviations."
    )
    for baseline, run, left_out in dict.fromkeys(
        (comparison.baseline, comparison.run, comparison.left_out) for comparison in comparisons
    ):
        if left_out:
            yield Alert(f"topics left out because only one of {baseline} and {run} has them: {left_out}")


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


def matrix_parts(matrix: PairMatrix) -> Iterator[Part]:
    """A matrix, topics' languages as rows; a dash stands where no document of a pair is relevant."""
    rows = [[lang, *(matrix.cell(lang, documents) for documents in matrix.documents)] for lang in matrix.langs]
    yield Table(
        ["topics \\ documents", *(f">{documents}" for documents in matrix.documents)],
        rows,
        f"{mean_name(matrix.measure)} by pair, evaluation {matrix.name}",
    )
    cross = "" if matrix.cross_mean is None else f"; over those of two languages {matrix.cross_mean:.3f}"
    yield f"mean over {counted(len(matrix.means), 'pair')} {matrix.mean:.3f}{cross}"
    if matrix.against:
        higher, lower = (sum(matrix.mark(pair) == mark for pair in matrix.means) for mark in (HIGHER, LOWER))
        yield (
            f"against {matrix.against}: {HIGHER} {counted(higher, 'pair')} higher, {LOWER} {lower} lower; "
            f"randomisation test over topics, p < {ALPHA:g} after Holm's correction over the "
            f"{counted(len(matrix.comparisons), 'pair')} that both have"
        )


def pair_matrix_json(matrix: PairMatrix) -> dict[str, Any]:
    """A matrix as JSON values."""
    pairs = []
    for run in matrix.runs:
        pair: dict[str, Any] = {"run": run.run, "topics": run.lang, "documents": run.documents}
        pair |= {"count": len(run.scores), "mean": matrix.means[run.pair]}
        if comparison := matrix.comparisons.get(run.pair):
            pair |= {
                "mean_against": comparison.baseline_mean,
                "difference": comparison.difference,
                "p": comparison.p_randomisation,
                "p_holm": comparison.p_holm,
            }
        pairs.append(pair)
    values = values_of(matrix, "measure", "against", "mean", "cross_mean")
    return {"evaluation": matrix.name, **values, "pairs": pairs}
