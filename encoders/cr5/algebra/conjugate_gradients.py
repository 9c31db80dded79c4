"""Block conjugate gradients: a symmetric positive definite system with many right-hand sides in one Krylov space."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, qr, solve_triangular

from encoders.document import Float64Array, FloatArray

Columns = npt.NDArray[np.floating]
Operator = Callable[[Columns], Columns]
"""(n, columns) → (n, columns) in the same precision."""

TOLERANCE = 0.01
"""Norm of a column's residual over the norm of its right-hand side, as in the paper (section 4.1)."""
_STEPS = 500
_REFINEMENTS = 10
_CHECKED = 4
"""Number of random sums of columns whose residuals are checked."""


def solve(operator: Operator, right: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
    """Solve for all columns of (n, columns) float32 at once, check in float64, refine while the residual is too large.

    The check takes a few sums of all columns with random signs. The residual of such a sum is about as large as that of
    all columns together, so the check costs a fraction of a step and finds a failure of float32 in any column.

    The operator is symmetric and positive definite; a column's tolerance is relative to the norm of the column.

    Raises:
        ArithmeticError: the residual does not shrink: the system is too ill-conditioned for float32.
    """
    solution = _block(operator, right, np.float32(tolerance / 2))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (right.shape[1], _CHECKED))
    residual = right @ signs - operator(solution @ signs)
    if np.linalg.norm(residual) <= tolerance * np.linalg.norm(right) * _CHECKED**0.5:
        return solution
    return _refined(operator, right, solution, tolerance)


def _refined(operator: Operator, right: FloatArray, first: FloatArray, tolerance: float) -> FloatArray:
    """Solve for the float64 residual and add the correction until each column is within the tolerance."""
    exact, solution = right.astype(np.float64), first.astype(np.float64)
    scale = np.linalg.norm(exact, axis=0)
    worst = np.inf
    for _ in range(_REFINEMENTS):
        residual = exact - operator(solution)
        previous, worst = worst, float(np.max(np.linalg.norm(residual, axis=0) / np.where(scale > 0, scale, 1)))
        if worst <= tolerance:
            return solution.astype(np.float32)
        if worst > previous / 2:
            break
        solution += _block(operator, residual.astype(np.float32), np.float32(tolerance / 2))
    raise ArithmeticError(f"residual {worst:.1e} of a system of {len(right):,} equations does not shrink")


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
        return np.asarray(cho_solve((cholesky(gram, lower=True, check_finite=False), True), np.eye(len(gram))))
    except LinAlgError:
        return np.asarray(np.linalg.pinv(gram, hermitian=True))


def orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Q with orthonormal columns and R, by Cholesky of the Gram matrix, or by Householder where that fails.

    Cholesky runs twice if columns are nearly dependent, because their Q in float32 is not orthogonal enough. Columns
    that depend on other columns give arbitrary orthonormal columns and zero rows in R.
    """
    try:
        basis, upper, angle = _by_cholesky(columns)
        if angle < _CLEAR:
            basis, correction, _ = _by_cholesky(basis)
            upper = correction @ upper
    except LinAlgError:
        basis, triangle = qr(columns, mode="economic", check_finite=False)
        return basis, triangle
    return basis, upper.astype(np.float32)


def _by_cholesky(columns: FloatArray) -> tuple[FloatArray, Float64Array, float]:
    """Q, R, and the sine of the smallest angle between a column and the span of the columns before it."""
    exact = columns.astype(np.float64)
    gram = exact.T @ exact
    scale = np.sqrt(np.diag(gram))
    if not (scale > 0).all():
        raise LinAlgError("a column is nothing")
    factor = cholesky(gram / np.outer(scale, scale), check_finite=False)
    angle = float(factor.diagonal().min())
    if angle < _DEPENDENT:
        raise LinAlgError("columns depend on each other")
    inverse = solve_triangular(factor, np.eye(len(factor)), check_finite=False) / scale[:, None]
    return columns @ inverse.astype(np.float32), factor * scale, angle


_DEPENDENT, _CLEAR = 1e-5, 0.1
