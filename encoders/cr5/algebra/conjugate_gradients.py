"""Block conjugate gradients: a symmetric positive definite system with many right-hand sides in one Krylov space."""

from functools import partial

import numpy as np
from numpy.linalg import LinAlgError

from encoders.cr5.algebra import refinement
from encoders.cr5.algebra.refinement import Operator
from encoders.document import Float64Array, FloatArray

TOLERANCE = 0.01
"""Norm of a column's residual over the norm of its right-hand side, as in the paper (section 4.1)."""
_STEPS = 500


def solve(operator: Operator, right: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
    """Solve (n, columns) float32, each column to ``tolerance`` of its norm. Raises ArithmeticError: float32 can't."""
    inverse = partial(_block, operator, tolerance=np.float32(tolerance / 2))
    return refinement.solve(operator, inverse, right, tolerance)


def _block(operator: Operator, right: FloatArray, tolerance: np.float32) -> FloatArray:
    """Conjugate gradients with an orthonormal block of residuals (Dubrulle 2001, BCGrQ)."""
    scale = np.linalg.norm(right, axis=0)
    limits = tolerance * np.where(scale > 0, scale, 1)
    block, size = orthonormal(right)
    solution = np.zeros_like(right)
    direction = block
    for _ in range(_STEPS):
        if (np.linalg.norm(size, axis=0) <= limits).all():
            break
        image = np.asarray(operator(direction), dtype=np.float32)
        step = _inverse((direction.T @ image).astype(np.float64)).astype(np.float32)
        solution += direction @ (step @ size)
        block, shrunk = orthonormal(block - image @ step)
        size = shrunk @ size
        direction = block + direction @ shrunk.T
    return solution


def _inverse(gram: Float64Array) -> Float64Array:
    """Inverse by a Cholesky factor; the pseudo-inverse of a matrix that has no factor."""
    try:
        lower = np.linalg.inv(np.linalg.cholesky(gram))
        return np.asarray(lower.T @ lower)
    except LinAlgError:
        return np.asarray(np.linalg.pinv(gram, hermitian=True))


def orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Q with orthonormal columns and R, by Cholesky of the Gram matrix, or by Householder where that fails.

    Cholesky runs twice if columns are nearly dependent: one pass in float32 is not orthogonal enough. Columns that
    depend on other columns give arbitrary orthonormal columns and zero rows in R.
    """
    try:
        basis, upper, angle = _by_cholesky(columns)
        if angle < _CLEAR:
            basis, correction, _ = _by_cholesky(basis)
            upper = correction @ upper
    except LinAlgError:
        basis, triangle = np.linalg.qr(columns)
        return basis, triangle
    return basis, upper.astype(np.float32)


def _by_cholesky(columns: FloatArray) -> tuple[FloatArray, Float64Array, float]:
    """Q, R, and the sine of the smallest angle between a column and the span of the columns before it."""
    exact = columns.astype(np.float64)
    gram = exact.T @ exact
    scale = np.sqrt(np.diag(gram))
    if not (scale > 0).all():
        raise LinAlgError("a column is nothing")
    factor = np.linalg.cholesky(gram / np.outer(scale, scale)).T
    angle = float(factor.diagonal().min())
    if angle < _DEPENDENT:
        raise LinAlgError("columns depend on each other")
    inverse = np.linalg.inv(factor) / scale[:, None]
    return columns @ inverse.astype(np.float32), factor * scale, angle


_DEPENDENT, _CLEAR = 1e-5, 0.1
