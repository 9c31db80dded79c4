"""Block conjugate gradients: a symmetric positive definite system with many right-hand sides in one Krylov space."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from numpy.linalg import LinAlgError

from encoders.document import Float64Array, FloatArray

Columns = npt.NDArray[np.floating]
Operator = Callable[[Columns], Columns]
"""(n, columns) → (n, columns) in the same precision; symmetric and positive definite."""
_CHECKED = 4
"""Number of random sums of columns whose residuals are checked."""
TOLERANCE = 0.01
"""Norm of a column's residual over the norm of its right-hand side, as in the paper (section 4.1)."""
_STEPS = 500


def solve_refined(
    operator: Operator, inverse: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float
) -> FloatArray:
    """Solve for all columns of (n, columns) float32 by an inverse that float32 makes inexact, refined in float64.

    The inverse of the residual is added until each column is within the tolerance, relative to its norm. The first
    check takes a few sums of all columns, scaled to unit length, with random signs: the residual of such a sum is about
    as large as that of all columns together, and costs a fraction of a product. Raises ArithmeticError: the residual
    does not shrink: the system is too ill-conditioned for float32.
    """
    solution = inverse(right)
    norms = np.linalg.norm(right, axis=0).astype(np.float64)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (right.shape[1], min(_CHECKED, right.shape[1])))
    sums = np.divide(signs, norms[:, None], out=np.zeros_like(signs), where=norms[:, None] > 0)
    residual = right @ sums - operator(solution @ sums)
    if np.linalg.norm(residual) <= tolerance * signs.size**0.5:
        return solution
    exact, refined = right.astype(np.float64), solution.astype(np.float64)
    scale = np.linalg.norm(exact, axis=0)
    worst = np.inf
    while True:
        residual = exact - operator(refined)
        previous, worst = worst, float(np.max(np.linalg.norm(residual, axis=0) / np.where(scale > 0, scale, 1)))
        if worst <= tolerance:
            return refined.astype(np.float32)
        if not worst <= previous / 2:  # nor if it is no number
            raise ArithmeticError(f"residual {worst:.1e} of a system of {len(right):,} equations does not shrink")
        refined += inverse(residual.astype(np.float32))


def solve(operator: Operator, right: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
    """Solve (n, columns) float32, each column to ``tolerance`` of its norm. Raises ArithmeticError: float32 can't."""
    inverse = partial(_block, operator, tolerance=np.float32(tolerance / 2))
    return solve_refined(operator, inverse, right, tolerance)


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
