"""Second moments of vectors in one pass: their mean, and the directions most of them share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from encoders.methods.vector_parts import VectorParts

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
    _axes: FloatArray | None = field(default=None, init=False, repr=False)

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

    def __add__(self, other: Moments) -> Moments:
        """The moments of both's vectors."""
        both = Moments(self.dim, self.count + other.count)
        both.total, both.second = self.total + other.total, self.second + other.second
        return both

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
        if self._axes is None:  # every rank is a slice of one decomposition
            self._axes = principal_axes(self.second)
        return self._axes[:rank]


@dataclass
class PartMoments:
    """Moments of vectors that are made of parts: each part's, of those vectors that it is not zero in.

    Attributes:
        parts: what the vectors are made of; one part is an ordinary vector.
        moments: of each part.
    """

    parts: VectorParts
    moments: tuple[Moments, ...] = ()

    def __post_init__(self) -> None:
        """Nothing seen yet, unless moments are given."""
        self.moments = self.moments or tuple(Moments(width) for width in self.parts.widths)

    def add(self, vectors: FloatArray) -> None:
        """See (n, dim) vectors."""
        rows, known = self.parts.unit(vectors), self.parts.known(vectors)
        for columns, moments, seen in zip(self.parts.slices, self.moments, known.T, strict=True):
            moments.add(rows[seen, columns])

    def __add__(self, other: PartMoments) -> PartMoments:
        """The moments of both's vectors."""
        return PartMoments(self.parts, tuple(a + b for a, b in zip(self.moments, other.moments, strict=True)))

    @property
    def count(self) -> int:
        """Vectors that the part which knows most of them knows."""
        return max(moments.count for moments in self.moments)

    @property
    def mean(self) -> Float64Array:
        """(dim,) the parts' means."""
        return np.concatenate([moments.mean for moments in self.moments])


def principal_axes(second: Float64Array) -> FloatArray:
    """Orthonormal eigenvectors of a (dim, dim) second moment, (r, dim), the strongest first; r is its rank."""
    values, vectors = np.linalg.eigh(second)
    found = int((values > _NOTHING * max(float(values[-1]), 0.0)).sum())
    axes: FloatArray = np.ascontiguousarray(vectors[:, ::-1][:, :found].T, dtype=np.float32)
    return axes


_NOTHING = 1e-9
"""Of the largest eigenvalue: what is below is rounding."""
