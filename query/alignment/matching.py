"""Document alignment: one-to-one pairs of two sides' documents, by margin, without the whole matrix of cosines.

Two passes over tiles of the matrix. The first keeps the k largest cosines of each row and each column: the means that
the margin divides by. The second keeps the pairs with the largest margins of each row and each column. Competitive
matching takes the best pair of all, then the best of what is left, and so on; where a document's kept pairs are used
up it waits, and the rest is gone over again. The pairs are those that the whole matrix would give (but for the choice
among equal scores).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray
from encoders.errors import BadInput
from query.calibration.margin import FLOOR, Margin

IntArray = npt.NDArray[np.int64]

KEPT = 16
"""Pairs kept for each document of either side."""

_ROWS, _COLS = 1024, 2048
"""A tile: 8 MB of float32, which stays near the processor."""

_PAIRS_AT_ONCE = 32_000_000
"""Bound on the pairs kept in later passes, where more are kept for each of fewer documents."""


@dataclass(frozen=True)
class Candidates:
    """Pairs that may be matched.

    Attributes:
        rows: (c,) places in the first side.
        cols: (c,) places in the second.
        cosines: (c,) float32.
        scores: (c,) float32 margins.
    """

    rows: IntArray
    cols: IntArray
    cosines: FloatArray
    scores: FloatArray


@dataclass(frozen=True)
class Pairs(Candidates):
    """Pairs that were matched, each document in one at most, by descending score."""


@dataclass(frozen=True)
class Neighbourhood:
    """How near each document's nearest are on the other side.

    Attributes:
        forward: (n,) mean cosine of each row's k nearest columns.
        backward: (m,) mean cosine of each column's k nearest rows.
    """

    forward: FloatArray
    backward: FloatArray


def align(x: FloatArray, y: FloatArray, *, k: int = 4, margin: Margin = "ratio", threshold: float = -math.inf) -> Pairs:
    """One-to-one pairs of rows of two matrices by margin, competitively matched (LAWDR, section 5 and equation 4).

    Memory is that of the inputs, of a few tiles and of some dozens of numbers a row.

    Args:
        x: (n, dim) float32 unit rows; a zero row has cosine 0 with everything.
        y: (m, dim) float32 unit rows.
        k: neighbours of the margin; all where a side has fewer.
        margin: ``ratio`` cos / ((fwd + bwd) / 2), ``distance`` cos − (fwd + bwd) / 2, ``absolute`` cos.
        threshold: least score of a pair.

    Returns:
        Pairs, best first: as many as the smaller side has rows, less those below the threshold.

    Raises:
        BadInput: a vector or the threshold is no number, or the sides' widths differ.
    """
    check(x, y, k, threshold)
    if not (len(x) and len(y)):
        return in_order([])
    around = neighbourhood(x, y, k) if margin != "absolute" else _nowhere(len(x), len(y))
    rows, cols = np.arange(len(x)), np.arange(len(y))
    taken: list[Candidates] = []
    kept = KEPT
    while len(rows) and len(cols):
        left_x, left_y = (x, y) if not taken else (x[rows], y[cols])
        there = Neighbourhood(around.forward[rows], around.backward[cols])
        found, waiting = _match(_best_pairs(left_x, left_y, there, margin, kept), threshold)
        cosines = _cosines(left_x, left_y, found.rows, found.cols)
        taken.append(Candidates(rows[found.rows], cols[found.cols], cosines, found.scores))
        rows, cols = rows[waiting[0]], cols[waiting[1]]
        kept = max(KEPT, min(2 * kept, _PAIRS_AT_ONCE // max(1, len(rows) + len(cols))))
    return in_order(taken)


def check(x: FloatArray, y: FloatArray, k: int, threshold: float) -> None:
    """See that two sides can be aligned.

    Raises:
        BadInput: they can't.
    """
    if math.isnan(threshold):
        raise BadInput("the threshold is no number; give one such as 1.05, or leave it out")
    if k < 1:
        raise BadInput(f"a margin needs at least one neighbour, not {k}")
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise BadInput(f"vectors of shapes {x.shape} and {y.shape} can't be compared; both sides need one encoder")
    for name, side in (("first", x), ("second", y)):
        if bad := np.flatnonzero(~np.isfinite(side).all(axis=1)).tolist():
            raise BadInput(f"the {name} side's vector {bad[0]} has a value that is no number; encode it again")


def neighbourhood(x: FloatArray, y: FloatArray, k: int) -> Neighbourhood:
    """Mean cosine of each row's and each column's k nearest on the other side; all where there are fewer."""
    forward, backward = _Best(len(x), min(k, len(y))), _Best(len(y), min(k, len(x)))
    for row, col, tile in _tiles(x, y):
        forward.offer(tile, row, col)
        backward.offer(tile, col, row, across=True)
    return Neighbourhood(forward.values.mean(axis=1), backward.values.mean(axis=1))


def candidates(
    x: FloatArray, y: FloatArray, around: Neighbourhood, *, margin: Margin = "ratio", kept: int = KEPT
) -> Candidates:
    """The pairs with the largest margins of each row and of each column, each pair once, ordered by row and column."""
    best = _best_pairs(x, y, around, margin, kept)
    _, once = np.unique(best.rows * len(y) + best.cols, return_index=True)
    rows, cols = best.rows[once], best.cols[once]
    return Candidates(rows, cols, _cosines(x, y, rows, cols), best.scores[once])


def match(found: Candidates, threshold: float = -math.inf) -> Pairs:
    """Competitive matching over a list: the best pair, then the best of documents not in one yet, and so on.

    A document whose every candidate went to others stays without a pair.
    """
    n, m = (int(side.max(initial=-1)) + 1 for side in (found.rows, found.cols))
    ends = (np.full(size, -np.inf, np.float32) for size in (n, m))
    taken, _ = _match(_BestPairs(found.rows, found.cols, found.scores, *ends), threshold)
    return in_order([Candidates(taken.rows, taken.cols, found.cosines[taken.places], taken.scores)])


def in_turn(x: FloatArray, y: FloatArray, rows: IntArray, cols: IntArray) -> Candidates:
    """Each row takes the nearest column that no row before it took: one pass, whatever is equal.

    Args:
        x: (n, dim) float32 unit rows.
        y: (m, dim) float32 unit rows.
        rows: places in the first side, ascending; those that find nothing left get no pair.
        cols: places in the second.
    """
    rows = rows[: len(cols)]
    taken, cosines = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.float32)
    free, columns = np.zeros(len(cols), np.float32), y[cols].T
    step = max(1, _ROWS * _COLS // max(1, len(cols)))
    for start in range(0, len(rows), step):
        tile = x[rows[start : start + step]] @ columns
        for at, row in enumerate(tile, start):
            taken[at] = (row + free).argmax()
            cosines[at], free[taken[at]] = row[taken[at]], -np.inf
    return Candidates(rows, cols[taken], cosines, cosines)


def in_order(parts: list[Candidates]) -> Pairs:
    """Pairs of several rounds as one list, best first."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Pairs(none, none, np.zeros(0, np.float32), np.zeros(0, np.float32))
    scores = np.concatenate([part.scores for part in parts])
    order = np.argsort(-scores, kind="stable")
    return Pairs(
        np.concatenate([part.rows for part in parts])[order],
        np.concatenate([part.cols for part in parts])[order],
        np.concatenate([part.cosines for part in parts])[order],
        scores[order],
    )


@dataclass(frozen=True)
class _BestPairs:
    """Kept pairs, some of them twice, and for each row and column the score that no pair left out is above."""

    rows: IntArray
    cols: IntArray
    scores: FloatArray
    row_floor: FloatArray
    col_floor: FloatArray


@dataclass(frozen=True)
class _Taken:
    """Pairs that were matched, and their places among those kept."""

    places: IntArray
    rows: IntArray
    cols: IntArray
    scores: FloatArray


_FREE, _MATCHED, _WAITS = 0, 1, 2


def _match(best: _BestPairs, threshold: float) -> tuple[_Taken, tuple[BoolArray, BoolArray]]:
    """Match as far as the kept pairs decide; the rest of rows and columns that must wait for another pass.

    A pair is taken only where no pair left out could come before it. A document that has used up what was kept for it
    waits, and so does whoever would have been matched with a document that waits.
    """
    row_floor, col_floor = (np.where(floor < threshold, -np.inf, floor) for floor in (best.row_floor, best.col_floor))
    order = np.argsort(-best.scores, kind="stable")
    order = order[best.scores[order] >= threshold]
    row_state, col_state = bytearray(len(row_floor)), bytearray(len(col_floor))
    row_end, col_end = row_floor.tolist(), col_floor.tolist()
    taken = []
    listed = (values[order].tolist() for values in (best.rows, best.cols, best.scores))
    for place, row, col, score in zip(order.tolist(), *listed, strict=True):
        if row_state[row] == _MATCHED or col_state[col] == _MATCHED:
            continue
        if row_state[row] == _WAITS or col_state[col] == _WAITS or score < row_end[row] or score < col_end[col]:
            row_state[row] = col_state[col] = _WAITS
        else:
            row_state[row] = col_state[col] = _MATCHED
            taken.append(place)
    places = np.array(taken, dtype=np.int64)
    found = _Taken(places, best.rows[places], best.cols[places], best.scores[places])
    return found, (_unsettled(row_state, row_floor), _unsettled(col_state, col_floor))


def _unsettled(state: bytearray, floor: npt.NDArray[np.floating]) -> BoolArray:
    states = np.frombuffer(state, dtype=np.uint8)
    result: BoolArray = (states == _WAITS) | ((states == _FREE) & np.isfinite(floor))
    return result


def _nowhere(n: int, m: int) -> Neighbourhood:
    return Neighbourhood(np.zeros(n, np.float32), np.zeros(m, np.float32))


def _best_pairs(x: FloatArray, y: FloatArray, around: Neighbourhood, margin: Margin, kept: int) -> _BestPairs:
    by_row, by_col = _Best(len(x), min(kept, len(y))), _Best(len(y), min(kept, len(x)))
    divisors = np.empty(_ROWS * _COLS, np.float32)
    for row, col, tile in _tiles(x, y):
        here = around.forward[row : row + tile.shape[0], None], around.backward[None, col : col + tile.shape[1]]
        _score(tile, *here, margin, divisors[: tile.size].reshape(tile.shape))
        by_row.offer(tile, row, col)
        by_col.offer(tile, col, row, across=True)
    (rows, cols, row_scores), (cols_again, rows_again, col_scores) = by_row.listed(), by_col.listed()
    return _BestPairs(
        np.concatenate((rows, rows_again)),
        np.concatenate((cols, cols_again)),
        np.concatenate((row_scores, col_scores)),
        by_row.floor(complete=kept >= len(y)),
        by_col.floor(complete=kept >= len(x)),
    )


def _score(cosines: FloatArray, forward: FloatArray, backward: FloatArray, margin: Margin, memory: FloatArray) -> None:
    """Replace a tile of cosines by their margins, in place: fresh memory costs more than the arithmetic."""
    if margin == "absolute":
        return
    np.add(forward / 2, backward / 2, out=memory)
    if margin == "distance":
        np.subtract(cosines, memory, out=cosines)
    else:
        np.maximum(memory, FLOOR, out=memory)
        np.divide(cosines, memory, out=cosines)


def _cosines(x: FloatArray, y: FloatArray, rows: IntArray, cols: IntArray) -> FloatArray:
    result = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), 65_536):
        some = slice(start, start + 65_536)
        np.einsum("ij,ij->i", x[rows[some]], y[cols[some]], out=result[some])
    return result


def _tiles(x: FloatArray, y: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
    """First row, first column and cosines of each tile; a tile's memory is used again for the next."""
    memory = np.empty(_ROWS * _COLS, np.float32)
    for row in range(0, len(x), _ROWS):
        some = x[row : row + _ROWS]
        for col in range(0, len(y), _COLS):
            others = y[col : col + _COLS]
            tile = memory[: len(some) * len(others)].reshape(len(some), len(others))
            np.matmul(some, others.T, out=tile)
            yield row, col, tile


class _Best:
    """The largest scores of each owner (a row or a column) so far, with whom it has them."""

    def __init__(self, owners: int, most: int) -> None:
        self.values = np.full((owners, most), -np.inf, np.float32)
        self.others = np.zeros((owners, most), np.int64)
        self.least = np.full(owners, -np.inf, np.float32)

    def offer(self, tile: FloatArray, first: int, first_other: int, *, across: bool = False) -> None:
        """See a tile; its owners are its rows, or across it its columns.

        Only what beats an owner's least is looked at: after the first tiles that is next to nothing.
        """
        owners = slice(first, first + tile.shape[1 if across else 0])
        least = self.least[owners]
        if np.isneginf(least).any():
            self._take_all(tile.T if across else tile, owners, first_other)
            return
        above = np.flatnonzero(tile > (least[None, :] if across else least[:, None]))
        if not len(above):
            return
        row, col = np.divmod(above, tile.shape[1])
        values = tile.ravel()[above]
        own, other = (col, row) if across else (row, col)
        if across:
            order = np.argsort(own, kind="stable")
            own, other, values = own[order], other[order], values[order]
        self._merge(own + first, other + first_other, values)

    def _take_all(self, tile: FloatArray, owners: slice, first_other: int) -> None:
        most = self.values.shape[1]
        if tile.shape[1] > most:
            places = np.argpartition(tile, tile.shape[1] - most, axis=1)[:, -most:]
        else:
            places = np.broadcast_to(np.arange(tile.shape[1]), tile.shape)
        self._keep(np.arange(owners.start, owners.stop), np.take_along_axis(tile, places, axis=1), places + first_other)

    def _merge(self, own: IntArray, other: IntArray, values: FloatArray) -> None:
        """Take entries that are ordered by owner."""
        owners, starts, counts = np.unique(own, return_index=True, return_counts=True)
        shape = len(owners), int(counts.max())
        which = np.repeat(np.arange(len(owners)), counts)
        place = np.arange(len(own)) - np.repeat(starts, counts)
        padded, others = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.int64)
        padded[which, place], others[which, place] = values, other
        self._keep(owners, padded, others)

    def _keep(self, owners: IntArray, values: FloatArray, others: IntArray) -> None:
        most = self.values.shape[1]
        values = np.concatenate((self.values[owners], values), axis=1)
        others = np.concatenate((self.others[owners], others), axis=1)
        best = np.argpartition(values, values.shape[1] - most, axis=1)[:, -most:]
        self.values[owners] = kept = np.take_along_axis(values, best, axis=1)
        self.others[owners] = np.take_along_axis(others, best, axis=1)
        self.least[owners] = kept.min(axis=1)

    def listed(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Owner, other and score of each."""
        owners = np.repeat(np.arange(len(self.values)), self.values.shape[1])
        return owners, self.others.ravel(), self.values.ravel()

    def floor(self, *, complete: bool) -> FloatArray:
        """For each owner the score that nothing left out is above; where nothing is, none."""
        return np.full_like(self.least, -np.inf) if complete else self.least
