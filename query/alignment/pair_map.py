"""Linear maps that bring two sides nearer, learnt only from the pairs that an alignment is surest of.

Each side is regressed on the means of its pairs, with a ridge towards the identity; this improves the unclear pairs.
"""

import numpy as np

from encoders.document import FloatArray, IntArray, unit_rows
from query.alignment.matching import Pairs, neighbour_means

_RIDGE = 0.3
_SHARE = 0.5
"""Share of the mutual best pairs that maps are learnt from: those with the highest scores."""

_FEWEST = 40
"""With fewer clear pairs nothing is learnt."""

_HELD_OUT = 2_000


PairMaps = tuple[FloatArray, FloatArray]
"""A map for each side, (dim, dim) float32; the side's rows are multiplied by it from the right."""


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
