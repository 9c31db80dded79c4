"""Document alignment: one-to-one pairs of two sides' documents, by margin, without the whole matrix of cosines.

A first pass over tiles keeps the k largest cosines of each row and column for the margins; a second keeps the pairs
with the largest margins. A document whose kept pairs are used up waits for another round. The result is that of the
whole matrix, except for the choice among equal scores.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray, IntArray
from encoders.errors import BadInput
from query.calibration.margin import FLOOR

Margin = Literal["ratio", "distance", "absolute"]
"""Form of a score: cos / ((fwd + bwd) / 2), cos − (fwd + bwd) / 2, or cos."""
MARGINS: tuple[Margin, ...] = get_args(Margin)

KEPT = 16
"""Pairs that a pass keeps for each document of either side."""

_ROWS, _COLS = 1024, 2048
"""Shape of a tile: 8 MB of float32, which fits into the processor's cache."""

_PAIRS_AT_ONCE = 32_000_000
"""Bound on all kept pairs of a later round, which keeps more pairs for each of fewer documents."""


class Pairs(NamedTuple):
    """Pairs of documents: candidates for a match, or matched pairs by descending score."""

    rows: IntArray  # (pairs,) positions of documents in the first side
    cols: IntArray  # (pairs,) positions in the second side
    cosines: FloatArray  # (pairs,) float32
    scores: FloatArray  # (pairs,) float32 margins

    def at(self, positions: IntArray) -> "Pairs":
        """The pairs at some positions, in the order of the positions."""
        return Pairs(self.rows[positions], self.cols[positions], self.cosines[positions], self.scores[positions])


@dataclass(frozen=True)
class NeighbourMeans:
    """Mean cosine of each document to its nearest documents on the other side."""

    forward: FloatArray  # (n,) mean cosine of each row's k nearest columns
    backward: FloatArray  # (m,) mean cosine of each column's k nearest rows


def align(x: FloatArray, y: FloatArray, *, k: int = 4, margin: Margin = "ratio", threshold: float = -math.inf) -> Pairs:
    """One-to-one pairs of rows of two matrices by margin, best first (LAWDR, section 5 and equation 4).

    ``x`` and ``y`` are (n, dim) and (m, dim) float32 unit rows; a zero row has cosine 0 with everything. ``k`` is the
    number of neighbours of the margin, ``threshold`` the least score of a pair. Raises BadInput: see ``check``.
    """
    check(x, y, k, threshold)
    if not (len(x) and len(y)):
        return merged_rounds([])
    if margin == "absolute":
        means = NeighbourMeans(np.zeros(len(x), np.float32), np.zeros(len(y), np.float32))
    else:
        means = neighbour_means(x, y, k)
    rows, cols = np.arange(len(x)), np.arange(len(y))
    rounds: list[Pairs] = []
    per_document = KEPT
    while len(rows) and len(cols):
        free_x, free_y = (x, y) if not rounds else (x[rows], y[cols])
        free_means = NeighbourMeans(means.forward[rows], means.backward[cols])
        best = _best_pairs(free_x, free_y, free_means, margin, per_document)
        matched, waiting_rows, waiting_cols = _match(best, threshold)
        matched_rows, matched_cols = rows[best.rows[matched]], cols[best.cols[matched]]
        cosines = _cosines(x, y, matched_rows, matched_cols)
        rounds.append(Pairs(matched_rows, matched_cols, cosines, best.scores[matched]))
        rows, cols = rows[waiting_rows], cols[waiting_cols]
        per_document = max(KEPT, min(2 * per_document, _PAIRS_AT_ONCE // max(1, len(rows) + len(cols))))
    return merged_rounds(rounds)


def check(x: FloatArray, y: FloatArray, k: int, threshold: float) -> None:
    """Raise BadInput if a vector or the threshold is no number, ``k`` is below 1, or the sides' widths differ."""
    if math.isnan(threshold):
        raise BadInput("the threshold is no number; give one such as 1.05, or leave it out")
    if k < 1:
        raise BadInput(f"a margin needs at least one neighbour, not {k}")
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise BadInput(f"vectors of shapes {x.shape} and {y.shape} can't be compared; both sides need one encoder")
    for name, vectors in (("first", x), ("second", y)):
        if bad_rows := np.flatnonzero(~np.isfinite(vectors).all(axis=1)).tolist():
            raise BadInput(f"the {name} side's vector {bad_rows[0]} has a value that is no number; encode it again")


def neighbour_means(x: FloatArray, y: FloatArray, k: int) -> NeighbourMeans:
    """Mean cosine of each row's and each column's k nearest on the other side; of all where there are fewer than k."""
    forward, backward = _Best(len(x), min(k, len(y))), _Best(len(y), min(k, len(x)))
    for row, col, tile in _tiles(x, y):
        forward.offer(tile, row, col)
        backward.offer(tile, col, row, across=True)
    return NeighbourMeans(forward.values.mean(axis=1), backward.values.mean(axis=1))


def candidates(x: FloatArray, y: FloatArray, means: NeighbourMeans, *, margin: Margin = "ratio") -> Pairs:
    """The ``KEPT`` pairs with the largest margins of each row and of each column, each pair once, by row and column."""
    best = _best_pairs(x, y, means, margin, KEPT)
    _, firsts = np.unique(best.rows * len(y) + best.cols, return_index=True)
    rows, cols = best.rows[firsts], best.cols[firsts]
    return Pairs(rows, cols, _cosines(x, y, rows, cols), best.scores[firsts])


def match(scored: Pairs, threshold: float = -math.inf) -> Pairs:
    """Match the best pair, then the best pair of the remaining documents, and so on; some documents get no pair."""
    sizes = (int(side.max(initial=-1)) + 1 for side in (scored.rows, scored.cols))
    floors = (np.full(size, -np.inf, np.float32) for size in sizes)
    matched, _, _ = _match(_BestPairs(scored.rows, scored.cols, scored.scores, *floors), threshold)
    return merged_rounds([scored.at(matched)])


def match_in_turn(x: FloatArray, y: FloatArray, rows: IntArray, cols: IntArray) -> Pairs:
    """Give each row the nearest column that no earlier row took, if there is one: one pass, whatever scores are equal.

    ``rows``, ascending, and ``cols`` are positions in the sides, (n, dim) and (m, dim) float32 unit rows.
    """
    rows = rows[: len(cols)]
    chosen, cosines = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.float32)
    penalties, columns = np.zeros(len(cols), np.float32), y[cols].T
    step = max(1, _ROWS * _COLS // max(1, len(cols)))
    for start in range(0, len(rows), step):
        for position, row_cosines in enumerate(x[rows[start : start + step]] @ columns, start):
            chosen[position] = (row_cosines + penalties).argmax()
            cosines[position], penalties[chosen[position]] = row_cosines[chosen[position]], -np.inf
    return Pairs(rows, cols[chosen], cosines, cosines)


def merged_rounds(rounds: list[Pairs]) -> Pairs:
    """The pairs of several rounds as one list, best first."""
    no_rows, no_scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
    nothing = Pairs(no_rows, no_rows, no_scores, no_scores)
    pairs = Pairs(*map(np.concatenate, zip(nothing, *rounds, strict=True)))
    return pairs.at(np.argsort(-pairs.scores, kind="stable"))


@dataclass(frozen=True)
class _BestPairs:
    """Kept pairs, some of them twice, and each row's and column's upper bound on the scores of other pairs."""

    rows: IntArray
    cols: IntArray
    scores: FloatArray
    row_floor: FloatArray
    col_floor: FloatArray


_FREE, _MATCHED, _WAITS = 0, 1, 2


def _match(best: _BestPairs, threshold: float) -> tuple[IntArray, BoolArray, BoolArray]:
    """Match as far as the kept pairs decide; returns the matched pairs, and the rows and columns for another round.

    A pair is matched only if no pair that was not kept can have a higher score. A document whose best remaining pair is
    with a waiting document waits, too.
    """
    row_floor, col_floor = (np.where(floor < threshold, -np.inf, floor) for floor in (best.row_floor, best.col_floor))
    order = np.argsort(-best.scores, kind="stable")
    order = order[best.scores[order] >= threshold]
    row_state, col_state = bytearray(len(row_floor)), bytearray(len(col_floor))
    row_bounds, col_bounds = row_floor.tolist(), col_floor.tolist()
    matched = []
    columns = (values[order].tolist() for values in (best.rows, best.cols, best.scores))
    for position, row, col, score in zip(order.tolist(), *columns, strict=True):
        if row_state[row] == _MATCHED or col_state[col] == _MATCHED:
            continue
        if row_state[row] == _WAITS or col_state[col] == _WAITS or score < row_bounds[row] or score < col_bounds[col]:
            row_state[row] = col_state[col] = _WAITS
        else:
            row_state[row] = col_state[col] = _MATCHED
            matched.append(position)
    return np.array(matched, dtype=np.int64), _unsettled(row_state, row_floor), _unsettled(col_state, col_floor)


def _unsettled(states: bytearray, floor: npt.NDArray[np.floating]) -> BoolArray:
    codes = np.frombuffer(states, dtype=np.uint8)
    result: BoolArray = (codes == _WAITS) | ((codes == _FREE) & np.isfinite(floor))
    return result


def _best_pairs(x: FloatArray, y: FloatArray, means: NeighbourMeans, margin: Margin, per_document: int) -> _BestPairs:
    by_row, by_col = _Best(len(x), min(per_document, len(y))), _Best(len(y), min(per_document, len(x)))
    memory = np.empty(_ROWS * _COLS, np.float32)
    for row, col, tile in _tiles(x, y):
        tile_means = means.forward[row : row + tile.shape[0], None], means.backward[None, col : col + tile.shape[1]]
        replace_by_margins(tile, *tile_means, margin, memory[: tile.size].reshape(tile.shape))
        by_row.offer(tile, row, col)
        by_col.offer(tile, col, row, across=True)
    (rows, cols, row_scores), (cols_again, rows_again, col_scores) = by_row.listed(), by_col.listed()
    return _BestPairs(
        np.concatenate((rows, rows_again)),
        np.concatenate((cols, cols_again)),
        np.concatenate((row_scores, col_scores)),
        by_row.floor(complete=per_document >= len(y)),
        by_col.floor(complete=per_document >= len(x)),
    )


def replace_by_margins(
    cosines: FloatArray, forward: FloatArray, backward: FloatArray, margin: Margin, means: FloatArray | None = None
) -> None:
    """Replace cosines by margins in place, to save memory; ``forward`` and ``backward`` are broadcast mean cosines."""
    if margin == "absolute":
        return
    means = np.add(forward / 2, backward / 2, out=means)
    if margin == "distance":
        np.subtract(cosines, means, out=cosines)
    else:
        np.divide(cosines, np.maximum(means, FLOOR, out=means), out=cosines)


def _cosines(x: FloatArray, y: FloatArray, rows: IntArray, cols: IntArray) -> FloatArray:
    result = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), 65_536):
        block = slice(start, start + 65_536)
        np.einsum("ij,ij->i", x[rows[block]], y[cols[block]], out=result[block])
    return result


def _tiles(x: FloatArray, y: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
    """First row, first column and cosines of each tile; the next tile overwrites the memory of the one before."""
    memory = np.empty(_ROWS * _COLS, np.float32)
    for row in range(0, len(x), _ROWS):
        row_vectors = x[row : row + _ROWS]
        for col in range(0, len(y), _COLS):
            col_vectors = y[col : col + _COLS]
            tile = memory[: len(row_vectors) * len(col_vectors)].reshape(len(row_vectors), len(col_vectors))
            np.matmul(row_vectors, col_vectors.T, out=tile)
            yield row, col, tile


class _Best:
    """The largest scores of each owner (a row or a column) so far, and the partners that they belong to."""

    def __init__(self, owners: int, count: int) -> None:
        self.values = np.full((owners, count), -np.inf, np.float32)
        self.partners = np.zeros((owners, count), np.int64)
        self.lowest = np.full(owners, -np.inf, np.float32)

    def offer(self, tile: FloatArray, first: int, first_partner: int, *, across: bool = False) -> None:
        """Take in a tile, whose owners are its rows, or its columns if ``across``."""
        owned, count = tile.T if across else tile, self.values.shape[1]
        gains = np.flatnonzero(owned.max(axis=1) > self.lowest[first : first + len(owned)])
        owners = gains + first
        values = np.concatenate((self.values[owners], owned[gains]), axis=1)
        best = np.argpartition(values, owned.shape[1], axis=1)[:, owned.shape[1] :]
        earlier = np.take_along_axis(self.partners[owners], np.minimum(best, count - 1), axis=1)
        self.partners[owners] = np.where(best < count, earlier, best - count + first_partner)
        self.values[owners] = highest = np.take_along_axis(values, best, axis=1)
        self.lowest[owners] = highest.min(axis=1)

    def listed(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Owner, partner and score of each kept pair."""
        owners = np.repeat(np.arange(len(self.values)), self.values.shape[1])
        return owners, self.partners.ravel(), self.values.ravel()

    def floor(self, *, complete: bool) -> FloatArray:
        """Each owner's upper bound on the scores that are not kept; −∞ if the kept pairs are ``complete``."""
        return np.full_like(self.lowest, -np.inf) if complete else self.lowest
