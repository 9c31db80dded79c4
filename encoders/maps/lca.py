"""Linear concept approximation: least squares from one space into another (Tashu et al. 2024, section 3.2.1)."""

from __future__ import annotations

from typing import Self

import numpy as np

from encoders.document import FloatArray
from encoders.maps.ridge import AlignedMoments, RidgePath, require_pairs
from encoders.methods.moments import Float64Array, principal_axes


class LCA:
    """Maps rows of one space into another: pinv(X) Y of centred rows, or with a ridge (XᵀX + αI)⁻¹ XᵀY.

    Attributes:
        ridge: α in spreads of X, its mean squared distance from its mean; 0: the pseudo-inverse, as published.
        dimensions: principal axes that each space is cut to before; none: all.
        stay: shrink towards leaving a vector as it is and not towards nothing: for two spaces of one encoder.
        mean_: (dim x,) mean that a row loses.
        target_mean_: (dim y,) mean of the target space.
        weights_: (dim x, dim y) what a row is multiplied by from the right.
    """

    def __init__(self, ridge: float = 0.0, dimensions: int | None = None, *, stay: bool = False) -> None:
        """Nothing learnt yet."""
        self.ridge, self.dimensions, self.stay = ridge, dimensions, stay

    def fit(self, x: FloatArray, y: FloatArray) -> Self:
        """Learn from aligned rows, (n, dim x) and (n, dim y).

        Raises:
            BadInput: the sides differ in length, have fewer than two rows, or a number that is not finite.
        """
        aligned = AlignedMoments({"x": x.shape[1], "y": y.shape[1]})
        aligned.add({"x": x, "y": y})
        return self.fit_moments(aligned, "x", "y")

    def fit_moments(self, aligned: AlignedMoments, source: str, target: str, path: RidgePath | None = None) -> Self:
        """Learn from moments of rows that were seen in whatever number of pieces.

        Args:
            aligned: the moments.
            source: name of the space mapped from.
            target: of the space mapped into.
            path: the source's decomposition, where it is known already.
        """
        require_pairs(aligned.moments.count)
        self.mean_, self.target_mean_ = aligned.mean(source), aligned.mean(target)
        self.weights_ = self._weights(aligned, source, target, path)
        return self

    def _weights(self, aligned: AlignedMoments, source: str, target: str, path: RidgePath | None) -> Float64Array:
        inside, cross = aligned.scatter(source, source), aligned.scatter(source, target)
        if self.dimensions:
            from_axes = _axes(inside, self.dimensions)
            to_axes = _axes(aligned.scatter(target, target), self.dimensions)
            cut = RidgePath(from_axes @ inside @ from_axes.T, aligned.spread(source))
            if self.stay:
                moved: Float64Array = from_axes.T @ cut.solve(from_axes @ (cross - inside), self.ridge)
                return np.eye(len(cross)) + moved
            weights: Float64Array = from_axes.T @ cut.solve(from_axes @ cross @ to_axes.T, self.ridge) @ to_axes
            return weights
        path = path or source_path(aligned, source)
        if self.stay:
            return np.eye(len(cross)) + path.solve(cross - inside, self.ridge)
        return path.solve(cross, self.ridge)

    def transform(self, rows: FloatArray) -> FloatArray:
        """Centred rows of the target space, (n, dim y) float32."""
        return np.asarray((rows - self.mean_) @ self.weights_, dtype=np.float32)


def source_path(aligned: AlignedMoments, source: str) -> RidgePath:
    """The decomposition that every map out of a space shares."""
    return RidgePath(aligned.scatter(source, source), aligned.spread(source))


def _axes(scatter: Float64Array, dimensions: int) -> Float64Array:
    return principal_axes(scatter)[:dimensions].astype(np.float64)
