"""The leading eigenvectors of a symmetric operator that can only be applied to blocks of vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from encoders.console import Progress
from encoders.cr5.algebra.conjugate_gradients import orthonormal
from encoders.document import Float64Array, FloatArray


@dataclass(frozen=True)
class Leading:
    """Eigenvectors of the largest eigenvalues."""

    vectors: FloatArray  # (size, count) float32, orthonormal
    values: Float64Array  # (count,), largest first
    coefficients: FloatArray  # (applied, count) float32: of ``vectors`` on the vectors that the operator was applied to
    residual: float = 0.0  # largest residual of an eigenvector, over the largest eigenvalue; 0 for a full decomposition


SMALL = 1_500
"""Size up to which the operator's matrix is computed and decomposed in full."""
BLOCK = 64
TOLERANCE = 0.05
"""Residual of an eigenvector, over the largest eigenvalue, at which the search stops; the paper takes 0.1."""
_MOST = 8
"""Maximum blocks of the Krylov space for each block of wanted eigenvectors."""


def max_applied_vectors(size: int, count: int, small: int = SMALL) -> int:
    """Maximum number of vectors that the operator is applied to: the whole space if small, else a Krylov space."""
    return size if _is_small(size, count, small) else min(size // BLOCK, _MOST * (1 + count // BLOCK)) * BLOCK


def _is_small(size: int, count: int, small: int) -> bool:
    return size <= max(small, 2 * count + BLOCK)


def leading(
    operator: Callable[[FloatArray], FloatArray],
    size: int,
    count: int,
    *,
    seed: int = 0,
    small: int = SMALL,
    progress: Callable[[int], None] | None = None,
) -> Leading:
    """Find ``count`` eigenvectors of the largest eigenvalues of a symmetric, positive semidefinite operator.

    They are the Rayleigh–Ritz vectors of the block Krylov space of a random block, which grows until the residuals are
    within the tolerance or the space has its maximum width. The operator maps (size, columns) to the same shape;
    ``progress`` gets the number of vectors after each block.
    """
    progress = progress or Progress()
    width = max_applied_vectors(size, count, small)
    if _is_small(size, count, small):
        progress(size)
        matrix = operator(np.eye(size, dtype=np.float32)).astype(np.float64)
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        top = np.ascontiguousarray(vectors[:, ::-1][:, :count], dtype=np.float32)
        return Leading(top, values[::-1][:count].copy(), top)
    block, _ = orthonormal(np.random.default_rng(seed).standard_normal((size, BLOCK), dtype=np.float32))
    basis = np.empty((size, width), dtype=np.float32, order="F")
    projected = np.zeros((width, width))
    space, best, values, residual = basis, projected, np.zeros(width), np.inf
    last_check, next_check = 0, count
    for end in range(BLOCK, width + 1, BLOCK):
        start = end - BLOCK
        basis[:, start:end] = block
        space = basis[:, :end]
        image = operator(block)
        progress(BLOCK)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            overlap = space.T @ image
            projected[:end, start:end] += overlap
            image = image - space @ overlap
        block, rest = orthonormal(image)
        if end < min(next_check, width):
            continue
        inner = projected[:end, :end]
        values, vectors = eigh(inner, lower=False, driver="evd", check_finite=False)
        best = vectors[:, ::-1][:, :count]
        previous = residual
        residual = float(
            np.linalg.norm(rest @ best[-BLOCK:], axis=0).max() / max(values[-1], np.finfo(np.float64).tiny)
        )
        if residual <= TOLERANCE:
            break
        decrease = (previous - residual) / (end - last_check)
        # half of the vectors that the residual needs to reach the tolerance: a check decomposes the whole space
        further = int((residual - TOLERANCE) / decrease / 2) if decrease > 0 else BLOCK
        last_check, next_check = end, end + min(further, end // 4)
    coefficients = best.astype(np.float32)
    return Leading(space @ coefficients, values[::-1][:count].copy(), coefficients, residual)
