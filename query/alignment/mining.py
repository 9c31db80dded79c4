"""Pairs of documents of two sides: debias, candidates by document, rescored by passage, learnt from, matched."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from encoders.document import FloatArray
from query.alignment.coverage import coverage
from query.alignment.matching import (
    Candidates,
    IntArray,
    Neighbourhood,
    Pairs,
    align,
    candidates,
    check,
    in_order,
    in_turn,
    match,
    neighbourhood,
)
from query.alignment.pair_map import clear_pairs, helpful_maps
from query.alignment.side import Side, debiased, mapped
from query.calibration.margin import Margin
from query.calibration.margin import margin as margin_of

_ROUNDS = 8
"""Times that what is left gets new candidates. Documents that are all alike have the same ones and take them up slowly;
after that each document takes what is nearest of the rest."""


@dataclass(frozen=True)
class AlignmentPlan:
    """How to align.

    Attributes:
        margin: form of the score.
        k: neighbours of the margin.
        threshold: least score of a pair.
        debias: none: not at all; 0: each side's mean; m: its subspace of rank m.
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
    """What came out.

    Attributes:
        pairs: best first; their cosines are those of the vectors as the encoder made them.
        learnt_from: clear pairs the maps in use were learnt from; 0 where none are in use.
        k: neighbours that the margin was taken of: no more than a quarter of the smaller side.
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
    plan = replace(plan, k=max(1, min(plan.k, smaller // 4)))  # of most there is the mean would be next to nothing
    plain = x, y = debiased(a, plan.debias), debiased(b, plan.debias)
    learnt_from = 0
    looked: _Looked | None = None
    for _ in range(plan.rounds if a.doc_ids and b.doc_ids else 0):
        if plan.passages:
            looked = _Looked.at(x, y, plan)
            scored = looked.scored
        else:
            around = neighbourhood(x.vectors, y.vectors, plan.k)
            scored = candidates(x.vectors, y.vectors, around, margin=plan.margin)
        clear = clear_pairs(scored, len(x.doc_ids), len(y.doc_ids))
        maps = helpful_maps(plain[0].vectors[scored.rows[clear]], plain[1].vectors[scored.cols[clear]])
        if maps is None:
            break
        learnt_from, looked = len(clear), None
        x, y = mapped(plain[0], maps.x), mapped(plain[1], maps.y)
    if plan.passages:
        pairs = _matched_by_passages(x, y, plan, looked)
    else:
        pairs = align(x.vectors, y.vectors, k=plan.k, margin=plan.margin, threshold=plan.threshold)
    cosines = np.einsum("ij,ij->i", a.vectors[pairs.rows], b.vectors[pairs.cols])
    return Mined(Pairs(pairs.rows, pairs.cols, cosines, pairs.scores), learnt_from, plan.k)


@dataclass(frozen=True)
class _Looked:
    """Two sides' candidates, seen once.

    Attributes:
        around: how near documents are by their vectors.
        near: how near they are by how well their passages cover each other.
        scored: the candidates with the score that pairs are matched by.
    """

    around: Neighbourhood
    near: Neighbourhood
    scored: Candidates

    @classmethod
    def at(cls, x: Side, y: Side, plan: AlignmentPlan) -> _Looked:
        """Look for them."""
        around = neighbourhood(x.vectors, y.vectors, plan.k)
        found = candidates(x.vectors, y.vectors, around, margin=plan.margin)
        covered = coverage(x.passages, y.passages, found.rows, found.cols)
        near = _neighbourhood_of(found, covered, (len(x.doc_ids), len(y.doc_ids)), plan.k)
        return cls(around, near, _with_margins(found, covered, near, plan.margin))


def _matched_by_passages(x: Side, y: Side, plan: AlignmentPlan, looked: _Looked | None) -> Pairs:
    """Match over candidates; documents whose candidates all went to others get new ones among those left."""
    if not (x.doc_ids and y.doc_ids):
        return in_order([])
    looked = looked or _Looked.at(x, y, plan)
    around, near, scored = looked.around, looked.near, looked.scored
    rows, cols = np.arange(len(x.doc_ids)), np.arange(len(y.doc_ids))
    parts: list[Candidates] = []
    for attempt in range(_ROUNDS):
        if not (len(rows) and len(cols)):
            break
        if attempt:
            there = Neighbourhood(around.forward[rows], around.backward[cols])
            found = candidates(x.vectors[rows], y.vectors[cols], there, margin=plan.margin)
            found = Candidates(rows[found.rows], cols[found.cols], found.cosines, found.scores)
            covered = coverage(x.passages, y.passages, found.rows, found.cols)
            scored = _with_margins(found, covered, near, plan.margin)
        taken = match(scored, plan.threshold)
        if not len(taken.rows):
            break
        parts.append(taken)
        rows, cols = np.setdiff1d(rows, taken.rows), np.setdiff1d(cols, taken.cols)
    else:
        parts.append(_taken_in_turn(x, y, plan, near, rows, cols))
    return in_order(parts)


def _taken_in_turn(x: Side, y: Side, plan: AlignmentPlan, near: Neighbourhood, rows: IntArray, cols: IntArray) -> Pairs:
    """Match what is left by the documents' vectors, and score the pairs by their passages as all others are."""
    found = in_turn(x.vectors, y.vectors, rows, cols)
    covered = coverage(x.passages, y.passages, found.rows, found.cols)
    return match(_with_margins(found, covered, near, plan.margin), plan.threshold)


def _with_margins(found: Candidates, covered: FloatArray, near: Neighbourhood, margin: Margin) -> Candidates:
    scores = margin_of(covered, near.forward[found.rows], near.backward[found.cols], margin, 1.0)
    return Candidates(found.rows, found.cols, found.cosines, scores)


def _neighbourhood_of(found: Candidates, covered: FloatArray, size: tuple[int, int], k: int) -> Neighbourhood:
    """Mean of each document's k best coverages among its candidates."""
    return Neighbourhood(_best_means(found.rows, covered, size[0], k), _best_means(found.cols, covered, size[1], k))


def _best_means(owners: IntArray, values: FloatArray, size: int, k: int) -> FloatArray:
    order = np.lexsort((-values, owners))
    owners, values = owners[order], values[order]
    best = np.arange(len(owners)) - np.searchsorted(owners, owners) < k
    totals = np.bincount(owners[best], values[best], size)
    means: FloatArray = (totals / np.maximum(np.bincount(owners[best], minlength=size), 1)).astype(np.float32)
    return means
