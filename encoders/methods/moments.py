"""Second moments of vectors in one pass: mean, spread and principal directions."""

from dataclasses import dataclass, field

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.methods.vector_parts import VectorParts


@dataclass
class Moments:
    """Count, sum and uncentred second moment, in float64, of the vectors seen so far.

    A few vectors are kept as they are: a language with one document needs no (dim, dim) matrix.
    """

    dim: int
    count: int = 0
    total: Float64Array = field(init=False)  # (dim,) sum of the vectors
    _few: list[Float64Array] = field(default_factory=list, init=False, repr=False)
    _second: Float64Array | None = field(default=None, init=False, repr=False)
    _axes: FloatArray | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.total = np.zeros(self.dim)

    def add(self, vectors: FloatArray) -> None:
        """Add (n, dim) vectors."""
        rows = vectors.astype(np.float64)
        self.count += len(rows)
        self.total += rows.sum(axis=0)
        self._axes = None
        if self._second is not None:
            self._second += rows.T @ rows
        elif len(rows):
            self._few.append(rows)
            if self.count > self.dim // _DIMENSIONS_PER_VECTOR:
                self._second = self.second
                self._few = []

    @property
    def second(self) -> Float64Array:
        """(dim, dim) sum of the vectors' outer products; not to be changed."""
        if self._second is not None:
            return self._second
        return sum((rows.T @ rows for rows in self._few), np.zeros((self.dim, self.dim)))

    def __add__(self, other: "Moments") -> "Moments":
        result = Moments(self.dim, self.count + other.count)
        result.total = self.total + other.total
        if self._second is None and other._second is None and len(self._few) < 2 and len(other._few) < 2:
            result._few = [*self._few, *other._few]
        else:
            result._second = self.second + other.second
        return result

    @property
    def mean(self) -> Float64Array:
        """(dim,) mean; zero without vectors."""
        return self.total / max(self.count, 1)

    @property
    def spread(self) -> float:
        """Mean squared distance from the mean: the trace of the covariance."""
        if not self.count:
            return 0.0
        return max(0.0, float(np.trace(self.second)) / self.count - float(self.mean @ self.mean))

    def subspace(self, rank: int) -> FloatArray:
        """(rank, dim) orthonormal rows, or fewer: the top right singular vectors, uncentred (LAWDR, section 3.2)."""
        if self._axes is None:  # every rank is a slice of one decomposition
            self._axes = principal_axes(self.second)
        return self._axes[:rank]


@dataclass
class PartMoments:
    """Moments of each part of vectors that are made of parts; vectors whose part is zero are left out."""

    parts: VectorParts
    moments: tuple[Moments, ...] = ()

    def __post_init__(self) -> None:
        self.moments = self.moments or tuple(Moments(width) for width in self.parts.widths)

    def add(self, vectors: FloatArray) -> None:
        """Add (n, dim) vectors."""
        rows, known = self.parts.unit(vectors), self.parts.known(vectors)
        for columns, moments, is_known in zip(self.parts.slices, self.moments, known.T, strict=True):
            moments.add(rows[is_known, columns])

    def __add__(self, other: "PartMoments") -> "PartMoments":
        return PartMoments(
            self.parts, tuple(first + second for first, second in zip(self.moments, other.moments, strict=True))
        )

    @property
    def count(self) -> int:
        """Number of vectors whose part is not zero, for the part with the most of them."""
        return max(moments.count for moments in self.moments)

    @property
    def mean(self) -> Float64Array:
        """(dim,) concatenated means of the parts."""
        return np.concatenate([moments.mean for moments in self.moments])


def principal_axes(second: Float64Array) -> FloatArray:
    """Orthonormal eigenvectors of a (dim, dim) second moment, (r, dim), largest eigenvalue first; r is its rank."""
    values, vectors = np.linalg.eigh(second)
    rank = int((values > _NOTHING * max(float(values[-1]), 0.0)).sum())
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank].T, dtype=np.float32)


_DIMENSIONS_PER_VECTOR = 8
"""A matrix replaces the vectors as soon as there is more than one vector for so many dimensions."""
_NOTHING = 1e-9
"""Share of the largest eigenvalue below which an eigenvalue is rounding."""
