"""Pairs of documents of two sides: debias, find candidates by vector, rescore by passage, learn maps, match."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from encoders.document import FloatArray
from query.alignment.coverage import coverage
from query.alignment.matching import (
    Candidates,
    IntArray,
    NeighbourMeans,
    Pairs,
    align,
    candidates,
    check,
    match,
    match_in_turn,
    merged_rounds,
    neighbourhood,
)
from query.alignment.pair_map import clear_pairs, helpful_maps
from query.alignment.side import Side, debiased, mapped
from query.calibration.margin import Margin
from query.calibration.margin import margin as margin_of

_ROUNDS = 8
"""Rounds in which the unmatched documents get new candidates. Documents that are all alike have the same candidates and
use them up slowly; after the last round each document takes the nearest unmatched document."""


@dataclass(frozen=True)
class AlignmentPlan:
    """How to align.

    Attributes:
        margin: form of the score.
        k: neighbours of the margin.
        threshold: least score of a pair.
        debias: what is taken out of each side: none: nothing; 0: the side's mean; m: the side's subspace of rank m.
        passages: score candidates by how well their passages cover each other, not by the documents' vectors.
        rounds: how often maps are learnt from the clear pairs.
    """

    margin: Margin = "ratio"
    k: int = 4
    threshold: float = -math.inf
    debias: int | None = 0
    passages: bool = True
    rounds: int = 1


@dataclass(frozen=True)
class Mined:
    """The result of an alignment.

    Attributes:
        pairs: best first; their cosines are those of the vectors as the encoder made them.
        learnt_from: number of clear pairs that the maps were learnt from; 0 if no maps are used.
        k: neighbours of the margin: no more than a quarter of the smaller side.
    """

    pairs: Pairs
    learnt_from: int
    k: int


def mine(a: Side, b: Side, plan: AlignmentPlan) -> Mined:
    """One-to-one pairs of two sides' documents.

    Raises:
        BadInput: the sides' vectors don't go together, or have values that are no numbers.
    """
    check(a.vectors, b.vectors, plan.k, plan.threshold)
    smaller = min(len(a.doc_ids), len(b.doc_ids))
    plan = replace(plan, k=max(1, min(plan.k, smaller // 4)))  # a mean over most documents is near 0
    plain = x, y = debiased(a, plan.debias), debiased(b, plan.debias)
    learnt_from = 0
    passage_scores: _PassageScores | None = None
    for _ in range(plan.rounds if a.doc_ids and b.doc_ids else 0):
        if plan.passages:
            passage_scores = _PassageScores.of(x, y, plan)
            scored = passage_scores.scored
        else:
            means = neighbourhood(x.vectors, y.vectors, plan.k)
            scored = candidates(x.vectors, y.vectors, means, margin=plan.margin)
        clear = clear_pairs(scored, len(x.doc_ids), len(y.doc_ids))
        maps = helpful_maps(plain[0].vectors[scored.rows[clear]], plain[1].vectors[scored.cols[clear]])
        if maps is None:
            break
        learnt_from, passage_scores = len(clear), None
        x, y = mapped(plain[0], maps.x), mapped(plain[1], maps.y)
    if plan.passages:
        pairs = _matched_by_passages(x, y, plan, passage_scores)
    else:
        pairs = align(x.vectors, y.vectors, k=plan.k, margin=plan.margin, threshold=plan.threshold)
    cosines = np.einsum("ij,ij->i", a.vectors[pairs.rows], b.vectors[pairs.cols])
    return Mined(Pairs(pairs.rows, pairs.cols, cosines, pairs.scores), learnt_from, plan.k)


@dataclass(frozen=True)
class _PassageScores:
    """Two sides' candidates, scored by their passages.

    Attributes:
        vector_means: mean cosines of the nearest documents' vectors.
        coverage_means: mean coverages of the nearest documents' passages.
        scored: the candidates with the scores that they are matched by.
    """

    vector_means: NeighbourMeans
    coverage_means: NeighbourMeans
    scored: Candidates

    @classmethod
    def of(cls, x: Side, y: Side, plan: AlignmentPlan) -> _PassageScores:
        """Find the candidates of two sides by their vectors, and score them by their passages."""
        vector_means = neighbourhood(x.vectors, y.vectors, plan.k)
        pairs = candidates(x.vectors, y.vectors, vector_means, margin=plan.margin)
        coverages = coverage(x.passages, y.passages, pairs.rows, pairs.cols)
        coverage_means = _neighbourhood_of(pairs, coverages, (len(x.doc_ids), len(y.doc_ids)), plan.k)
        return cls(vector_means, coverage_means, _with_margins(pairs, coverages, coverage_means, plan.margin))


def _matched_by_passages(x: Side, y: Side, plan: AlignmentPlan, passage_scores: _PassageScores | None) -> Pairs:
    """Match candidates; documents whose candidates are all matched get new candidates among the unmatched."""
    if not (x.doc_ids and y.doc_ids):
        return merged_rounds([])
    passage_scores = passage_scores or _PassageScores.of(x, y, plan)
    vector_means, coverage_means = passage_scores.vector_means, passage_scores.coverage_means
    scored = passage_scores.scored
    rows, cols = np.arange(len(x.doc_ids)), np.arange(len(y.doc_ids))
    rounds: list[Candidates] = []
    for attempt in range(_ROUNDS):
        if not (len(rows) and len(cols)):
            break
        if attempt:
            free_means = NeighbourMeans(vector_means.forward[rows], vector_means.backward[cols])
            pairs = candidates(x.vectors[rows], y.vectors[cols], free_means, margin=plan.margin)
            pairs = Candidates(rows[pairs.rows], cols[pairs.cols], pairs.cosines, pairs.scores)
            coverages = coverage(x.passages, y.passages, pairs.rows, pairs.cols)
            scored = _with_margins(pairs, coverages, coverage_means, plan.margin)
        matched = match(scored, plan.threshold)
        if not len(matched.rows):
            break
        rounds.append(matched)
        rows, cols = np.setdiff1d(rows, matched.rows), np.setdiff1d(cols, matched.cols)
    else:
        rounds.append(_matched_in_turn(x, y, plan, coverage_means, rows, cols))
    return merged_rounds(rounds)


def _matched_in_turn(
    x: Side, y: Side, plan: AlignmentPlan, coverage_means: NeighbourMeans, rows: IntArray, cols: IntArray
) -> Pairs:
    """Match the remaining documents by their vectors, and score these pairs by their passages like all other pairs."""
    pairs = match_in_turn(x.vectors, y.vectors, rows, cols)
    coverages = coverage(x.passages, y.passages, pairs.rows, pairs.cols)
    return match(_with_margins(pairs, coverages, coverage_means, plan.margin), plan.threshold)


def _with_margins(
    pairs: Candidates, coverages: FloatArray, coverage_means: NeighbourMeans, margin: Margin
) -> Candidates:
    scores = margin_of(coverages, coverage_means.forward[pairs.rows], coverage_means.backward[pairs.cols], margin, 1.0)
    return Candidates(pairs.rows, pairs.cols, pairs.cosines, scores)


def _neighbourhood_of(pairs: Candidates, coverages: FloatArray, size: tuple[int, int], k: int) -> NeighbourMeans:
    """Mean of each document's k largest coverages among its candidates."""
    return NeighbourMeans(
        _best_means(pairs.rows, coverages, size[0], k), _best_means(pairs.cols, coverages, size[1], k)
    )


def _best_means(owners: IntArray, values: FloatArray, size: int, k: int) -> FloatArray:
    order = np.lexsort((-values, owners))
    owners, values = owners[order], values[order]
    best = np.arange(len(owners)) - np.searchsorted(owners, owners) < k
    totals = np.bincount(owners[best], values[best], size)
    means: FloatArray = (totals / np.maximum(np.bincount(owners[best], minlength=size), 1)).astype(np.float32)
    return means
