"""Linear concept approximation: least squares from one space into another (Tashu et al. 2024, section 3.2.1)."""

from typing import Self

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.maps.ridge_path import AlignedMoments, RidgePath, require_pairs
from encoders.methods.moments import principal_axes


class LCA:
    """Map rows of one space into another: pinv(X) Y of centred rows, or with a ridge (XᵀX + αI)⁻¹ XᵀY.

    As ``published`` the rows are not centred: the means are zero.

    Attributes:
        ridge: α in spreads of X, its mean squared distance from its mean; 0: the pseudo-inverse.
        dimensions: principal axes that each space is first reduced to; None: all.
        stay: shrink the map towards the identity and not towards zero: for two spaces of one encoder.
        weights_: (dim x, dim y) matrix that a row less the mean is multiplied by from the right.
    """

    def __init__(self, ridge: float = 0.0, dimensions: int | None = None, *, stay: bool = False) -> None:
        self.ridge, self.dimensions, self.stay = ridge, dimensions, stay

    def fit_moments(self, aligned: AlignedMoments, source: str, target: str, path: RidgePath | None = None) -> Self:
        """Learn from moments of aligned rows, two at least; ``path`` is the source's decomposition, if it exists."""
        require_pairs(aligned.moments.count)
        self.mean_, self.target_mean_ = aligned.mean(source), aligned.mean(target)
        self.weights_ = self._weights(aligned, source, target, path)
        return self

    def _weights(self, aligned: AlignedMoments, source: str, target: str, path: RidgePath | None) -> Float64Array:
        scatter, cross = aligned.scatter(source, source), aligned.scatter(source, target)
        if self.dimensions:
            from_axes = principal_axes(scatter)[: self.dimensions]
            reduced = RidgePath(from_axes @ scatter @ from_axes.T, aligned.spread(source))
            if self.stay:
                return np.eye(len(cross)) + from_axes.T @ reduced.solve(from_axes @ (cross - scatter), self.ridge)
            to_axes = principal_axes(aligned.scatter(target, target))[: self.dimensions]
            return from_axes.T @ reduced.solve(from_axes @ cross @ to_axes.T, self.ridge) @ to_axes
        path = path or ridge_path(aligned, source)
        if self.stay:
            return np.eye(len(cross)) + path.solve(cross - scatter, self.ridge)
        return path.solve(cross, self.ridge)

    @classmethod
    def published(cls, aligned: AlignedMoments, source: str, target: str) -> Self:
        """The map as published, pinv(X) Y of uncentred rows, from moments. Raises BadInput: fewer than two rows."""
        require_pairs(aligned.moments.count)
        lca = cls()
        lca.mean_, lca.target_mean_ = np.zeros_like(aligned.mean(source)), np.zeros_like(aligned.mean(target))
        lca.weights_ = RidgePath(aligned.products(source, source), 1.0).solve(aligned.products(source, target), 0.0)
        return lca

    def transform(self, rows: FloatArray) -> FloatArray:
        """Map rows to rows of the target space less the target's mean, (n, dim y) float32."""
        return np.asarray((rows - self.mean_) @ self.weights_, dtype=np.float32)


def ridge_path(aligned: AlignedMoments, source: str) -> RidgePath:
    """The decomposition that all maps out of a space share."""
    return RidgePath(aligned.scatter(source, source), aligned.spread(source))
