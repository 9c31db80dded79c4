"""Least squares from one space into another, for any ridge, from second moments."""

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.errors import BadInput
from encoders.methods.moments import Moments
from encoders.phrases import counted

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Ridges to choose from, in units of the vectors' mean squared distance from their mean: so they fit any scale."""

_BLOCK = 8192
_NOTHING = 1e-9
"""Share of the largest eigenvalue below which the pseudo-inverse leaves a direction out as rounding."""


class AlignedMoments:
    """Moments of aligned rows of several spaces, in one pass and in memory that does not grow with the rows."""

    def __init__(self, dims: dict[str, int]) -> None:
        """Start without rows; ``dims`` are the widths of the spaces by name."""
        self.parts: dict[str, slice] = {}  # columns of each space, by name
        start = 0
        for name, dim in dims.items():
            self.parts[name] = slice(start, start + dim)
            start += dim
        self.moments = Moments(start)  # of the spaces' concatenated rows, in the order of ``parts``

    def add(self, rows: dict[str, FloatArray]) -> None:
        """Add aligned rows, (n, dim) of every space. Raises BadInput: shapes don't fit, or a number is not finite."""
        counts = {name: len(vectors) for name, vectors in rows.items()}
        if len(set(counts.values())) != 1 or rows.keys() != self.parts.keys():
            row_counts = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            raise BadInput(f"the sides are not aligned (rows: {row_counts}); give the same documents on every side")
        for name, vectors in rows.items():
            width = self.parts[name].stop - self.parts[name].start
            if vectors.ndim != 2 or vectors.shape[1] != width:
                raise BadInput(f"vectors of {name} have the shape {vectors.shape}, and {width} columns are wanted")
        for start in range(0, next(iter(counts.values())), _BLOCK):
            block = np.concatenate([rows[name][start : start + _BLOCK] for name in self.parts], axis=1)
            if not np.isfinite(block).all():
                raise BadInput("a vector has a number that is not finite; encode its document again, or leave it out")
            self.moments.add(block)

    def mean(self, name: str) -> Float64Array:
        """(dim,) mean of a space's rows."""
        return self.moments.mean[self.parts[name]]

    def scatter(self, first: str, second: str) -> Float64Array:
        """(dim, other dim) sum over rows of the outer products of two spaces' centred rows."""
        total = self.moments.total
        of_means = np.outer(total[self.parts[first]], total[self.parts[second]]) / max(self.moments.count, 1)
        return self.products(first, second) - of_means

    def products(self, first: str, second: str) -> Float64Array:
        """(dim, other dim) sum over rows of the outer products of two spaces' rows, not centred."""
        return self.moments.second[self.parts[first], self.parts[second]]

    def spread(self, name: str) -> float:
        """Mean squared distance of a space's rows from their mean."""
        return float(np.trace(self.scatter(name, name))) / max(self.moments.count, 1)


class RidgePath:
    """(XᵀX + αI)⁻¹ XᵀY for any α, the ridge times the spread, from one decomposition of XᵀX."""

    def __init__(self, scatter: Float64Array, spread: float) -> None:
        """Decompose XᵀX of centred rows with this spread."""
        values, self._axes = np.linalg.eigh(scatter)
        self._values = np.maximum(values, 0.0)
        self.spread = spread

    def solve(self, cross: Float64Array, ridge: float) -> Float64Array:
        """Weights (dim, targets) for XᵀY; a ridge of 0 gives the pseudo-inverse's, pinv(X) Y."""
        if ridge:
            factors = 1.0 / (self._values + max(ridge * self.spread, np.finfo(np.float64).tiny))
        else:
            is_seen = self._values > _NOTHING * self._values[-1]
            factors = np.where(is_seen, 1.0 / np.where(is_seen, self._values, 1.0), 0.0)
        return np.asarray((self._axes * factors) @ (self._axes.T @ cross))


def require_pairs(count: int) -> None:
    """Check that there are enough pairs to learn from. Raises BadInput: there are too few pairs."""
    if count < 2:
        raise BadInput(f"a map can't be learnt from {counted(count, 'aligned document')}; give 2 or more")
