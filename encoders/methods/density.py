"""Weights of sentences by their density: what many documents say distinguishes none of them (LAWDR, section 4.1)."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.document import Float64Array, FloatArray, short_hash
from encoders.errors import BadInput

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

DIMENSIONS = 16
"""Principal components the density is estimated in (LAWDR, supplement)."""

_FOLDS = 5
_CANDIDATES = 16
_MOST_COMPARED = 10_000
"""Maximum points in the cross-validation: its cost grows with n², the bandwidth changes only with n^(-1/20)."""
_BLOCK = 256
_SAME = 1e-5
"""Distance of vectors in float32, over their length, below which the difference is rounding."""


@dataclass(frozen=True, eq=False)
class DensityWeights:
    """Weights of sentences by the density around them, which is estimated once from a sample.

    The tophat density of n points with bandwidth h in k dimensions is P(s) = c(s) / (n V h^k): c(s) is how many points
    lie within h of s, V the volume of the unit ball. In w = b / (b + P(s)) with b = mean(P) / 2 the constants V h^k
    cancel, so the share c(s) / n stands for P, and nothing overflows.
    """

    mean: FloatArray  # (dim,) float32 mean of the sample's vectors
    components: FloatArray  # (k, dim) float32 orthonormal rows, at most ``DIMENSIONS``
    points: FloatArray  # (n, k) float32, the sample's vectors reduced to k dimensions
    bandwidth: float  # h, a distance between reduced points
    b: float  # half the mean share of points near a point of the sample

    @classmethod
    def fit(cls, vectors: FloatArray, seed: int = 0) -> "DensityWeights":
        """Estimate the density from (n, dim) rows of about one length, a row for each time a sentence occurs.

        Raises BadInput: there are no vectors, or a vector is not finite.
        """
        if not len(vectors):
            raise BadInput("a density needs at least one sentence; give sources that have some")
        if not np.isfinite(vectors).all():
            raise BadInput("a sentence's vector is not finite; export the encoder again")
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        same = _SAME * (round(float(np.sqrt(squares.mean())), 4) or 1.0)  # exactly 1 for unit rows in float32
        mean, components = _principal(vectors.astype(np.float64), same)
        reduced = _reduce(vectors, mean, components)
        bandwidth = _cross_validated(reduced, same, seed)
        unweighted = cls(mean, components, reduced.astype(np.float32), bandwidth, b=0.0)
        return cls(mean, components, unweighted.points, bandwidth, b=float(unweighted.shares(vectors).mean() / 2))

    def shares(self, vectors: FloatArray) -> Float64Array:
        """Share of the sample within the bandwidth of each of (m, dim) vectors: (m,), 0 to 1."""
        if not len(vectors):
            return np.zeros(0)
        reduced = _reduce(vectors, self.mean, self.components)
        near = self._tree.query_ball_point(reduced, self.bandwidth, return_length=True)
        return np.asarray(near, dtype=np.float64) / len(self.points)

    def weights(self, vectors: FloatArray) -> FloatArray:
        """Weights b / (b + P) of (m, dim) vectors: (m,) float32, above 0 and at most 1 (1: no point is near)."""
        return (self.b / (self.b + self.shares(vectors))).astype(np.float32)

    @cached_property
    def id(self) -> str:
        """16 hex digits that identify the weights."""
        arrays = (self.mean, self.components, self.points, np.array([self.bandwidth, self.b]))
        return short_hash(*(np.ascontiguousarray(part).tobytes() for part in arrays))

    def save(self, file: Path) -> None:
        """Write the density as ``.npz``."""
        with file.open("wb") as handle:
            np.savez(handle, **asdict(self))

    @classmethod
    def load(cls, file: Path) -> "DensityWeights":
        """Read a file that ``save`` wrote. Raises BadInput: the file is damaged or holds no density."""
        advice = f"make it again: dragoman train lawdr SOURCE… -o {file.parent}"
        try:
            with file.open("rb") as handle, np.load(handle, allow_pickle=False) as data:
                arrays = (data["mean"], data["components"], data["points"])
                loaded = cls(*arrays, bandwidth=float(data["bandwidth"]), b=float(data["b"]))
        except Exception as error:  # a damaged archive raises errors of zlib, zipfile or numpy
            raise BadInput(f"{file} can't be read; {advice}") from error
        if not loaded._is_sound():
            raise BadInput(f"{file} holds no density of sentences; {advice}")
        return loaded

    def _is_sound(self) -> bool:
        arrays = (self.mean, self.components, self.points)
        return (
            [part.ndim for part in arrays] == [1, 2, 2]
            and all(part.dtype == np.float32 and part.size and np.isfinite(part).all() for part in arrays)
            and self.components.shape == (self.points.shape[1], len(self.mean))
            and np.isfinite(self.bandwidth)
            and self.bandwidth > 0
            and 0 < self.b <= 0.5
        )

    @cached_property
    def _tree(self) -> "cKDTree":
        from scipy.spatial import cKDTree  # noqa: PLC0415 - a search needs no scipy.spatial

        return cKDTree(self.points)


def _principal(vectors: Float64Array, same: float) -> tuple[FloatArray, FloatArray]:
    """Mean and first principal components: as many as the vectors' rank, from 1 to ``DIMENSIONS``."""
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
    rank = int((variances > same**2).sum())
    leading = directions[:, ::-1][:, : min(max(rank, 1), DIMENSIONS)].T
    return mean.astype(np.float32), np.ascontiguousarray(leading, dtype=np.float32)


def _reduce(vectors: FloatArray, mean: FloatArray, components: FloatArray) -> Float64Array:
    return (vectors.astype(np.float64) - mean) @ components.T.astype(np.float64)


def _cross_validated(points: Float64Array, same: float, seed: int) -> float:
    """The bandwidth that gives held-out points the largest likelihood.

    A point with no neighbour within the bandwidth has tophat density 0, which would rule out the bandwidth. So the
    density gets a floor: one further observation, spread evenly over the ball of radius R around the mean that holds
    the sample. With n training points the density is (c + (h/R)^k) / ((n + 1) V h^k); it still integrates to 1, and its
    floor is the same for every h. The score is the logarithm of density over floor, log(1 + c (R/h)^k).

    Points within ``same`` of each other count once: a copy in another fold would favour a bandwidth of zero. The
    smallest candidate is the distance within which half of the points have a neighbour.
    """
    from scipy.spatial import cKDTree  # noqa: PLC0415 - a search needs no scipy.spatial

    random = np.random.default_rng(seed)
    radius = float(np.linalg.norm(points, axis=1).max())
    distinct = np.unique(np.round(points / same), axis=0) * same
    if len(distinct) > _MOST_COMPARED:
        distinct = distinct[random.permutation(len(distinct))[:_MOST_COMPARED]]
    if len(distinct) < 2 or radius <= same:
        return same
    nearest, _ = cKDTree(distinct).query(distinct, k=[2])
    least = float(np.median(nearest))
    candidates = np.geomspace(least, max(least, radius), _CANDIDATES)
    folds = random.permutation(len(distinct)) % _FOLDS
    gains = (radius / candidates) ** points.shape[1]
    scores = np.zeros(len(candidates))
    for fold in range(_FOLDS):
        near = _neighbours(distinct[folds == fold], distinct[folds != fold], candidates)
        scores += np.log1p(near * gains).sum(axis=0)
    return max(float(candidates[scores.argmax()]), same)


def _neighbours(held_out: Float64Array, training: Float64Array, distances: Float64Array) -> Float64Array:
    """Number of training points within each distance of each held-out point: (held out, distances)."""
    from scipy.spatial.distance import cdist  # noqa: PLC0415 - a search needs no scipy.spatial

    counts = np.zeros((len(held_out), len(distances)))
    for start in range(0, len(held_out), _BLOCK):
        pair_distances = cdist(held_out[start : start + _BLOCK], training)
        for column, distance in enumerate(distances):
            counts[start : start + _BLOCK, column] = np.count_nonzero(pair_distances <= distance, axis=1)
    return counts
