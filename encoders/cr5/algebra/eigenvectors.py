"""The leading eigenvectors of a symmetric operator that is known by what it does to a block of vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.console import Progress
from encoders.cr5.algebra.conjugate_gradients import orthonormal
from encoders.document import FloatArray

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Leading:
    """Eigenvectors of the largest eigenvalues.

    Attributes:
        vectors: (size, count) float32, orthonormal.
        values: (count,), largest first.
        made_of: (seen, count) float32: the same vectors as sums of those that the operator was shown, in their order.
        residual: the largest of any vector, over the largest eigenvalue; 0 where the operator was decomposed whole.
    """

    vectors: FloatArray
    values: Float64Array
    made_of: FloatArray
    residual: float = 0.0


SMALL = 1_500
"""Size up to which the operator is written out and decomposed whole."""
BLOCK = 64
TOLERANCE = 0.05
"""Residual of an eigenvector, relative to the largest eigenvalue, at which it is good enough; the paper takes 0.1."""
_MOST = 8
"""Blocks of the Krylov space, for each block of vectors wanted, at which the best found so far are taken."""


def most_shown(size: int, count: int, small: int = SMALL) -> int:
    """Vectors that the operator is shown at most: all of the space if it is small, else a Krylov space's."""
    return size if _is_small(size, count, small) else min(size // BLOCK, _MOST * (1 + count // BLOCK)) * BLOCK


def _is_small(size: int, count: int, small: int) -> bool:
    return size <= max(small, 2 * count + BLOCK)


def leading(
    operator: Callable[[FloatArray], FloatArray],
    size: int,
    count: int,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    small: int = SMALL,
    progress: Callable[[int], None] | None = None,
) -> Leading:
    """Find them.

    Block Krylov: the space of a random block and its images, each made orthogonal to all before, and the best vectors
    in it (Rayleigh–Ritz). It is widened until the residuals are small, or it is as wide as it may be.

    Args:
        operator: (size, columns) → (size, columns), symmetric and positive semidefinite.
        size: of its vectors.
        count: eigenvectors wanted, at most ``size``.
        seed: of the first block.
        tolerance: residual over the largest eigenvalue.
        small: size up to which the operator is written out.
        progress: is told of each block by its vectors.
    """
    progress = progress or Progress()
    most = most_shown(size, count, small)
    if _is_small(size, count, small):
        progress(size)
        whole = operator(np.eye(size, dtype=np.float32)).astype(np.float64)
        values, vectors = np.linalg.eigh((whole + whole.T) / 2)
        found = np.ascontiguousarray(vectors[:, ::-1][:, :count], dtype=np.float32)
        return Leading(found, values[::-1][:count].copy(), found)
    block, _ = orthonormal(np.random.default_rng(seed).standard_normal((size, BLOCK), dtype=np.float32))
    basis = np.empty((size, most), dtype=np.float32, order="F")
    projected = np.zeros((most, most))
    known, best, values, residual = basis, projected, np.zeros(most), np.inf
    for end in range(BLOCK, most + 1, BLOCK):
        start = end - BLOCK
        basis[:, start:end] = block
        known = basis[:, :end]
        image = operator(block)
        progress(BLOCK)
        for _ in range(2):  # once more takes out what rounding left
            part = known.T @ image
            projected[:end, start:end] += part
            image = image - known @ part
        block, rest = orthonormal(image)
        if end < count:
            continue
        inner = projected[:end, :end]
        values, vectors = np.linalg.eigh(np.triu(inner) + np.triu(inner, 1).T)
        best = vectors[:, ::-1][:, :count]
        residual = float(
            np.linalg.norm(rest @ best[-BLOCK:], axis=0).max() / max(values[-1], np.finfo(np.float64).tiny)
        )
        if residual <= tolerance:
            break
    made_of = best.astype(np.float32)
    return Leading(known @ made_of, values[::-1][:count].copy(), made_of, residual)
