"""Second moments of vectors in one pass: their mean, and the directions most of them share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray

Float64Array = npt.NDArray[np.float64]


@dataclass
class Moments:
    """Count, sum and uncentred second moment of the vectors seen so far, in float64 whatever their order.

    Attributes:
        dim: width of the vectors.
        count: vectors seen.
        total: (dim,) their sum.
        second: (dim, dim) sum of their outer products.
    """

    dim: int
    count: int = 0
    total: Float64Array = field(init=False)
    second: Float64Array = field(init=False)
    _axes: Float64Array | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Nothing seen yet."""
        self.total = np.zeros(self.dim)
        self.second = np.zeros((self.dim, self.dim))

    def add(self, vectors: FloatArray) -> None:
        """See (n, dim) vectors."""
        rows = vectors.astype(np.float64)
        self.count += len(rows)
        self.total += rows.sum(axis=0)
        self.second += rows.T @ rows
        self._axes = None

    @property
    def mean(self) -> Float64Array:
        """(dim,) mean; zero where nothing was seen."""
        return self.total / max(self.count, 1)

    @property
    def spread(self) -> float:
        """Mean squared distance from the mean: the trace of the covariance."""
        if not self.count:
            return 0.0
        return max(0.0, float(np.trace(self.second)) / self.count - float(self.mean @ self.mean))

    def subspace(self, rank: int) -> FloatArray:
        """(rank, dim) orthonormal rows: the top right singular vectors of the uncentred matrix (LAWDR, section 3.2).

        Fewer rows where fewer vectors were seen.
        """
        rank = min(rank, self.count, self.dim)
        if self._axes is None:  # every rank is a slice of one decomposition
            _, self._axes = np.linalg.eigh(self.second)
        top: FloatArray = np.ascontiguousarray(self._axes[:, ::-1][:, :rank].T, dtype=np.float32)
        return top
