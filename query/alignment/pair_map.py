"""Linear maps that bring two sides nearer, learnt from the pairs an alignment is surest of, and from nothing else.

Two languages' vectors differ by more than their means. Where many pairs are clear, each side is regressed on the middle
of its pairs, with a ridge towards leaving things as they are; the unclear pairs gain. Whether the maps are used is
decided on clear pairs they have not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from encoders.document import FloatArray, unit_rows
from query.alignment.matching import Candidates, IntArray, neighbourhood

_RIDGE = 0.3
_SHARE = 0.5
"""Of mutual best pairs, the share with the highest scores that is learnt from."""

_FEWEST = 40
"""With fewer clear pairs nothing is learnt."""

_HELD_OUT = 2_000
_SEED = 0


@dataclass(frozen=True)
class PairMaps:
    """A map for each side.

    Attributes:
        x: (dim, dim) float32; rows of the first side are multiplied by it from the right.
        y: (dim, dim) float32 for the second.
    """

    x: FloatArray
    y: FloatArray


def clear_pairs(scored: Candidates, n: int, m: int) -> IntArray:
    """Places of the candidates that are each other's best, the better-scored half of them.

    Args:
        scored: candidates of an n × m alignment.
        n: documents of the first side.
        m: documents of the second.
    """
    best_x, best_y = np.full(n, -np.inf, np.float32), np.full(m, -np.inf, np.float32)
    np.maximum.at(best_x, scored.rows, scored.scores)
    np.maximum.at(best_y, scored.cols, scored.scores)
    mutual = np.flatnonzero((scored.scores == best_x[scored.rows]) & (scored.scores == best_y[scored.cols]))
    order = np.argsort(-scored.scores[mutual], kind="stable")
    kept: IntArray = mutual[order[: int(np.ceil(_SHARE * len(mutual)))]]
    return kept


def fit_pair_maps(x: FloatArray, y: FloatArray) -> PairMaps:
    """Ridge regression of each row of a pair on the pair's middle.

    Args:
        x: (pairs, dim) rows of the first side.
        y: (pairs, dim) their partners.
    """
    middle = (x.astype(np.float64) + y) / 2
    return PairMaps(_towards(x, middle), _towards(y, middle))


def _towards(rows: FloatArray, target: np.ndarray) -> FloatArray:
    wide = rows.astype(np.float64)
    identity = np.eye(rows.shape[1])
    change = np.linalg.solve(wide.T @ wide + _RIDGE * identity, wide.T @ (target - wide))
    result: FloatArray = (identity + change).astype(np.float32)
    return result


def helpful_maps(x: FloatArray, y: FloatArray) -> PairMaps | None:
    """Maps learnt from pairs, if they bring pairs they have not seen further out of their neighbours.

    Half of the pairs are held out, and the other way round; the measure is the distance margin among those held out.

    Args:
        x: (pairs, dim) float32 unit rows of the first side.
        y: (pairs, dim) their partners.

    Returns:
        Maps learnt from all of the pairs; none where they would not help, or the pairs are too few to tell.
    """
    if len(x) < _FEWEST:
        return None
    order = np.random.default_rng(_SEED).permutation(len(x))
    halves = order[::2], order[1::2]
    gain = 0.0
    for seen, unseen in (halves, halves[::-1]):
        maps = fit_pair_maps(x[seen], y[seen])
        some = unseen[:_HELD_OUT]
        before = _distinctness(x[some], y[some])
        gain += _distinctness(unit_rows(x[some] @ maps.x), unit_rows(y[some] @ maps.y)) - before
    return fit_pair_maps(x, y) if gain > 0 else None


def _distinctness(x: FloatArray, y: FloatArray, k: int = 4) -> float:
    """Mean of cos − (fwd + bwd) / 2 over pairs, their neighbours being those of the other pairs."""
    around = neighbourhood(x, y, k)
    cosines = np.einsum("ij,ij->i", x, y)
    return float((cosines - (around.forward + around.backward) / 2).mean())
