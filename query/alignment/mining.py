"""Pairs of documents of two sides: debias, find candidates by vector, rescore by passage, learn maps, match."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from encoders.document import FloatArray, IntArray, unit_rows
from query.alignment.coverage import coverage
from query.alignment.matching import (
    Margin,
    NeighbourMeans,
    Pairs,
    align,
    candidates,
    check,
    match,
    match_in_turn,
    merged_rounds,
    neighbour_means,
    replace_by_margins,
)
from query.alignment.side import Side, debiased, mapped

_ROUNDS = 8
"""Rounds in which the unmatched documents get new candidates. Documents that are all alike have the same candidates and
use them up slowly; after the last round each document takes the nearest unmatched document."""
_RIDGE = 0.3
_SHARE = 0.5
"""Share of the mutual best pairs that maps are learnt from: those with the highest scores. They improve the others."""
_FEWEST = 40
"""With fewer clear pairs nothing is learnt."""
_HELD_OUT = 2_000
PairMaps = tuple[FloatArray, FloatArray]
"""A map for each side, (dim, dim) float32; the side's rows are multiplied by it from the right."""


@dataclass(frozen=True)
class AlignmentPlan:
    """How to align."""

    margin: Margin = "ratio"
    k: int = 4  # neighbours of the margin
    threshold: float = -math.inf  # least score of a pair
    debias: int | None = 0  # taken out of each side: none: nothing; 0: its mean; m: its subspace of rank m
    passages: bool = True  # score candidates by how well their passages cover each other, not by the documents' vectors
    rounds: int = 1  # how often maps are learnt from the clear pairs


@dataclass(frozen=True)
class Mined:
    """The result of an alignment."""

    pairs: Pairs  # best first; their cosines are those of the vectors as the encoder made them
    learnt_from: int  # number of clear pairs that the maps were learnt from; 0 if no maps are used
    k: int  # neighbours of the margin: no more than a quarter of the smaller side


def mine(a: Side, b: Side, plan: AlignmentPlan) -> Mined:
    """One-to-one pairs of documents. Raises BadInput: the vectors don't go together, or a value is no number."""
    check(a.vectors, b.vectors, plan.k, plan.threshold)
    smaller = min(len(a.doc_ids), len(b.doc_ids))
    plan = replace(plan, k=max(1, min(plan.k, smaller // 4)))  # a mean over most documents is near 0
    x, y = debiased(a, plan.debias), debiased(b, plan.debias)
    comparison, learnt_from = _Comparison(x, y, plan), 0
    for _ in range(plan.rounds if a.doc_ids and b.doc_ids else 0):
        scored = comparison.scored
        clear = clear_pairs(scored, len(x.doc_ids), len(y.doc_ids))
        maps = helpful_maps(x.vectors[scored.rows[clear]], y.vectors[scored.cols[clear]])
        if maps is None:
            break
        comparison, learnt_from = _Comparison(mapped(x, maps[0]), mapped(y, maps[1]), plan), len(clear)
    pairs = comparison.matched()
    cosines = np.einsum("ij,ij->i", a.vectors[pairs.rows], b.vectors[pairs.cols])
    return Mined(pairs._replace(cosines=cosines), learnt_from, plan.k)


@dataclass(frozen=True)
class _Comparison:
    """Two sides, compared by their documents' vectors; if the plan says so, the passages score the candidates."""

    x: Side
    y: Side
    plan: AlignmentPlan

    @cached_property
    def _vector_means(self) -> NeighbourMeans:
        return neighbour_means(self.x.vectors, self.y.vectors, self.plan.k)

    @cached_property
    def _nearest(self) -> Pairs:
        return candidates(self.x.vectors, self.y.vectors, self._vector_means, margin=self.plan.margin)

    @cached_property
    def _coverages(self) -> FloatArray:
        return coverage(self.x.passages, self.y.passages, self._nearest.rows, self._nearest.cols)

    @cached_property
    def _coverage_means(self) -> NeighbourMeans:
        """Mean of each document's k largest coverages among its candidates."""
        return NeighbourMeans(
            _best_means(self._nearest.rows, self._coverages, len(self.x.doc_ids), self.plan.k),
            _best_means(self._nearest.cols, self._coverages, len(self.y.doc_ids), self.plan.k),
        )

    @cached_property
    def scored(self) -> Pairs:
        """The candidates with the scores that they are matched by."""
        return self._with_margins(self._nearest, self._coverages) if self.plan.passages else self._nearest

    def matched(self) -> Pairs:
        """One-to-one pairs, best first."""
        plan = self.plan
        if plan.passages and self.x.doc_ids and self.y.doc_ids:
            return merged_rounds(self._rounds())
        return align(self.x.vectors, self.y.vectors, k=plan.k, margin=plan.margin, threshold=plan.threshold)

    def _rounds(self) -> list[Pairs]:
        """Match candidates; documents whose candidates are all matched get new candidates among the unmatched."""
        rows, cols = np.arange(len(self.x.doc_ids)), np.arange(len(self.y.doc_ids))
        rounds: list[Pairs] = []
        for attempt in range(_ROUNDS):
            if not (len(rows) and len(cols)):
                return rounds
            matched = match(self._scored_among(rows, cols) if attempt else self.scored, self.plan.threshold)
            if not len(matched.rows):
                return rounds
            rounds.append(matched)
            rows, cols = np.setdiff1d(rows, matched.rows), np.setdiff1d(cols, matched.cols)
        in_turn = match_in_turn(self.x.vectors, self.y.vectors, rows, cols)
        return [*rounds, match(self._by_passages(in_turn), self.plan.threshold)]

    def _scored_among(self, rows: IntArray, cols: IntArray) -> Pairs:
        means = NeighbourMeans(self._vector_means.forward[rows], self._vector_means.backward[cols])
        pairs = candidates(self.x.vectors[rows], self.y.vectors[cols], means, margin=self.plan.margin)
        return self._by_passages(pairs._replace(rows=rows[pairs.rows], cols=cols[pairs.cols]))

    def _by_passages(self, pairs: Pairs) -> Pairs:
        return self._with_margins(pairs, coverage(self.x.passages, self.y.passages, pairs.rows, pairs.cols))

    def _with_margins(self, pairs: Pairs, coverages: FloatArray) -> Pairs:
        means = self._coverage_means
        scores = coverages.copy()
        replace_by_margins(scores, means.forward[pairs.rows], means.backward[pairs.cols], self.plan.margin)
        return pairs._replace(scores=scores)


def _best_means(owners: IntArray, values: FloatArray, size: int, k: int) -> FloatArray:
    order = np.lexsort((-values, owners))
    owners, values = owners[order], values[order]
    best = np.arange(len(owners)) - np.searchsorted(owners, owners) < k
    totals = np.bincount(owners[best], values[best], size)
    return (totals / np.maximum(np.bincount(owners[best], minlength=size), 1)).astype(np.float32)


def clear_pairs(scored: Pairs, n: int, m: int) -> IntArray:
    """Positions of the candidate pairs of n × m documents that are mutually best: the half with the higher scores."""
    best_x, best_y = np.full(n, -np.inf, np.float32), np.full(m, -np.inf, np.float32)
    np.maximum.at(best_x, scored.rows, scored.scores)
    np.maximum.at(best_y, scored.cols, scored.scores)
    mutual = np.flatnonzero((scored.scores == best_x[scored.rows]) & (scored.scores == best_y[scored.cols]))
    order = np.argsort(-scored.scores[mutual], kind="stable")
    return mutual[order[: int(np.ceil(_SHARE * len(mutual)))]]


def fit_pair_maps(x: FloatArray, y: FloatArray) -> PairMaps:
    """Regress both (pairs, dim) rows of each pair on the mean of the two, by ridge regression towards the identity."""
    middle = (x.astype(np.float64) + y) / 2
    return _towards(x, middle), _towards(y, middle)


def _towards(rows: FloatArray, target: np.ndarray) -> FloatArray:
    wide_rows = rows.astype(np.float64)
    identity = np.eye(rows.shape[1])
    change = np.linalg.solve(wide_rows.T @ wide_rows + _RIDGE * identity, wide_rows.T @ (target - wide_rows))
    return (identity + change).astype(np.float32)


def helpful_maps(x: FloatArray, y: FloatArray) -> PairMaps | None:
    """Maps learnt from (pairs, dim) float32 unit rows; none if held-out pairs don't gain in distance margin."""
    if len(x) < _FEWEST:
        return None
    order = np.random.default_rng(0).permutation(len(x))
    halves = order[::2], order[1::2]
    gain = 0.0
    for seen, unseen in (halves, halves[::-1]):
        map_x, map_y = fit_pair_maps(x[seen], y[seen])
        tested = unseen[:_HELD_OUT]
        before = _distinctness(x[tested], y[tested])
        gain += _distinctness(unit_rows(x[tested] @ map_x), unit_rows(y[tested] @ map_y)) - before
    return fit_pair_maps(x, y) if gain > 0 else None


def _distinctness(x: FloatArray, y: FloatArray) -> float:
    """Mean of cos − (fwd + bwd) / 2 over pairs; the four neighbours of a row are rows of these pairs."""
    means = neighbour_means(x, y, 4)
    return float((np.einsum("ij,ij->i", x, y) - (means.forward + means.backward) / 2).mean())
