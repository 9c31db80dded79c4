"""Matrices of language pairs for a person, and as JSON."""

from __future__ import annotations

from typing import Any

from encoders.console import Console
from encoders.wording import counted
from query.evaluation.pair_matrix import PairMatrix
from query.measures.quality_measures import mean_name
from query.measures.significance import ALPHA, HIGHER, LOWER


def show_pair_matrix(matrix: PairMatrix, console: Console) -> None:
    """Print a matrix, topics' languages as rows; a dash stands where no document of a pair is relevant."""
    rows = []
    for lang in matrix.langs:
        pairs = [(lang, documents) for documents in matrix.documents]
        rows.append(
            [lang, *(f"{matrix.means[pair]:.3f}{matrix.mark(pair)}" if pair in matrix.means else "–" for pair in pairs)]
        )
    console.table(
        ["topics \\ documents", *(f">{documents}" for documents in matrix.documents)],
        rows,
        title=f"{mean_name(matrix.measure)} by pair, evaluation {matrix.name}",
    )
    cross = "" if matrix.cross_mean is None else f"; over those of two languages {matrix.cross_mean:.3f}"
    console.result(f"mean over {counted(len(matrix.means), 'pair')} {matrix.mean:.3f}{cross}")
    if matrix.against:
        higher, lower = (sum(matrix.mark(pair) == mark for pair in matrix.means) for mark in (HIGHER, LOWER))
        console.result(
            f"against {matrix.against}: {HIGHER} {counted(higher, 'pair')} higher, {LOWER} {lower} lower; "
            f"randomisation test over topics, p < {ALPHA:g} after Holm's correction over the "
            f"{counted(len(matrix.comparisons), 'pair')} that both have"
        )


def pair_matrix_json(matrix: PairMatrix) -> dict[str, Any]:
    """A matrix as JSON values."""
    pairs = []
    for run in matrix.runs:
        pair: dict[str, Any] = {
            "run": run.run,
            "topics": run.lang,
            "documents": run.documents,
            "count": len(run.scores),
            "mean": matrix.means[run.pair],
        }
        if comparison := matrix.comparisons.get(run.pair):
            pair |= {
                "mean_against": comparison.baseline_mean,
                "difference": comparison.difference,
                "p": comparison.p_randomisation,
                "p_holm": comparison.p_holm,
            }
        pairs.append(pair)
    return {
        "evaluation": matrix.name,
        "measure": matrix.measure,
        "against": matrix.against,
        "mean": matrix.mean,
        "cross_mean": matrix.cross_mean,
        "pairs": pairs,
    }
