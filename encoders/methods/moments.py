"""Second moments of vectors in one pass: mean, spread and principal directions."""

from dataclasses import dataclass, field

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.methods.vector_parts import VectorParts


@dataclass
class Moments:
    """Count, sum and uncentred second moment, in float64, of the vectors seen so far."""

    dim: int
    count: int = 0
    total: Float64Array = field(init=False)  # (dim,) sum of the vectors
    second: Float64Array = field(init=False)  # (dim, dim) sum of the vectors' outer products
    _axes: FloatArray | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.total, self.second = np.zeros(self.dim), np.zeros((self.dim, self.dim))

    def add(self, vectors: FloatArray) -> None:
        """Add (n, dim) vectors."""
        rows = vectors.astype(np.float64)
        self.count += len(rows)
        self.total += rows.sum(axis=0)
        self.second += rows.T @ rows
        self._axes = None

    @property
    def mean(self) -> Float64Array:
        """(dim,) mean; zero without vectors."""
        return self.total / max(self.count, 1)

    def subspace(self, rank: int) -> FloatArray:
        """(rank, dim) orthonormal rows, or fewer: the top right singular vectors, uncentred (LAWDR, section 3.2)."""
        if self._axes is None:  # every rank is a slice of one decomposition
            self._axes = principal_axes(self.second)
        return self._axes[:rank]


@dataclass
class PartMoments:
    """Counts, means and spreads of the parts of vectors that are made of parts, without vectors whose part is zero."""

    parts: VectorParts
    counts: Float64Array = field(init=False)  # (parts,)
    total: Float64Array = field(init=False)  # (dim,) sum of the vectors with unit parts
    squares: Float64Array = field(init=False)  # (parts,) sum of the squared lengths of the parts

    def __post_init__(self) -> None:
        self.counts, self.squares = np.zeros((2, len(self.parts.widths)))
        self.total = np.zeros(sum(self.parts.widths))

    def add(self, vectors: FloatArray) -> None:
        """Add (n, dim) vectors."""
        rows = self.parts.unit(vectors).astype(np.float64)
        self.counts += self.parts.known(vectors).sum(axis=0)
        self.total += rows.sum(axis=0)
        self.squares += self._sums(np.square(rows).sum(axis=0))

    def __add__(self, other: "PartMoments") -> "PartMoments":
        result = PartMoments(self.parts)
        for name in ("counts", "total", "squares"):
            setattr(result, name, getattr(self, name) + getattr(other, name))
        return result

    @property
    def count(self) -> int:
        """Number of vectors whose part is not zero, for the part with the most of them."""
        return int(self.counts.max())

    @property
    def mean(self) -> Float64Array:
        """(dim,) concatenated means of the parts; zero without vectors."""
        mean: Float64Array = self.total / np.repeat(np.maximum(self.counts, 1), self.parts.widths)
        return mean

    @property
    def spreads(self) -> Float64Array:
        """(parts,) mean squared distances from the means: the traces of the covariances."""
        return np.maximum(self.squares / np.maximum(self.counts, 1) - self._sums(np.square(self.mean)), 0.0)

    def _sums(self, columns: Float64Array) -> Float64Array:
        sums: Float64Array = np.add.reduceat(columns, [part.start for part in self.parts.slices])
        return sums


def principal_axes(second: Float64Array) -> FloatArray:
    """Orthonormal eigenvectors of a (dim, dim) second moment, (r, dim), largest eigenvalue first; r is its rank."""
    values, vectors = np.linalg.eigh(second)
    rank = int((values > _NOTHING * max(float(values[-1]), 0.0)).sum())
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank].T, dtype=np.float32)


_NOTHING = 1e-9
"""Share of the largest eigenvalue below which an eigenvalue is rounding."""
