"""Least squares from one space into another, for any ridge, out of second moments."""

from __future__ import annotations

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.methods.moments import Float64Array, Moments
from encoders.wording import counted

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Penalties to choose from, in mean squared distances of a vector from its mean: so they fit vectors of any length."""

_BLOCK = 8192
_NOTHING = 1e-9
"""Of the largest eigenvalue: directions below it were not seen, and the pseudo-inverse leaves them out."""


class AlignedMoments:
    """Moments of aligned rows of several spaces, in one pass and in memory that does not grow with the rows.

    Attributes:
        moments: of the spaces' rows put side by side, in the order of ``parts``.
        parts: columns of each space, by its name.
    """

    def __init__(self, dims: dict[str, int]) -> None:
        """Nothing seen yet; ``dims`` are the widths of the spaces by name."""
        self.parts: dict[str, slice] = {}
        start = 0
        for name, dim in dims.items():
            self.parts[name] = slice(start, start + dim)
            start += dim
        self.moments = Moments(start)

    def add(self, rows: dict[str, FloatArray]) -> None:
        """See aligned rows: (n, dim) of every space, the same document's at the same place.

        Raises:
            BadInput: the spaces have different numbers of rows or other widths, or a number is not finite.
        """
        counts = {name: len(some) for name, some in rows.items()}
        if len(set(counts.values())) != 1 or rows.keys() != self.parts.keys():
            said = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            raise BadInput(f"the sides are not aligned (rows: {said}); give the same documents on every side")
        for name, some in rows.items():
            width = self.parts[name].stop - self.parts[name].start
            if some.ndim != 2 or some.shape[1] != width:
                raise BadInput(f"vectors of {name} have the shape {some.shape}, and {width} columns are wanted")
        for start in range(0, next(iter(counts.values())), _BLOCK):
            block = np.concatenate([rows[name][start : start + _BLOCK] for name in self.parts], axis=1)
            require_finite(block)
            self.moments.add(block)

    def mean(self, name: str) -> Float64Array:
        """(dim,) mean of a space's rows."""
        return self.moments.mean[self.parts[name]]

    def scatter(self, first: str, second: str) -> Float64Array:
        """(dim, other dim) sum over rows of the products of two spaces' distances from their means."""
        moments, one, other = self.moments, self.parts[first], self.parts[second]
        together = moments.second[one, other]
        scattered: Float64Array = together - np.outer(moments.total[one], moments.total[other]) / max(moments.count, 1)
        return scattered

    def spread(self, name: str) -> float:
        """Mean squared distance of a space's rows from their mean."""
        return float(np.trace(self.scatter(name, name))) / max(self.moments.count, 1)


class RidgePath:
    """(XᵀX + αI)⁻¹ XᵀY for any α from one decomposition of XᵀX.

    Attributes:
        spread: what a ridge of 1 stands for: α is the ridge times it.
    """

    def __init__(self, scatter: Float64Array, spread: float) -> None:
        """Take XᵀX of centred rows and their spread."""
        values, self._axes = np.linalg.eigh(scatter)
        self._values = np.maximum(values, 0.0)
        self.spread = spread

    def solve(self, cross: Float64Array, ridge: float) -> Float64Array:
        """Weights (dim, targets) for XᵀY; with a ridge of 0 by the pseudo-inverse, pinv(X) Y."""
        if ridge:
            factors = 1.0 / (self._values + max(ridge * self.spread, np.finfo(np.float64).tiny))
        else:
            seen = self._values > _NOTHING * self._values[-1]
            factors = np.where(seen, 1.0 / np.where(seen, self._values, 1.0), 0.0)
        weights: Float64Array = (self._axes * factors) @ (self._axes.T @ cross)
        return weights


def require_finite(rows: FloatArray) -> None:
    """See that there is no NaN or infinity in what is learnt from.

    Raises:
        BadInput: there is.
    """
    if not np.isfinite(rows).all():
        raise BadInput("a vector has a number that is not finite; encode its document again, or leave it out")


def require_pairs(count: int, fewest: int = 2) -> None:
    """See that there is something to learn from.

    Raises:
        BadInput: there are too few pairs.
    """
    if count < fewest:
        raise BadInput(f"a map can't be learnt from {counted(count, 'aligned document')}; give {fewest} or more")
