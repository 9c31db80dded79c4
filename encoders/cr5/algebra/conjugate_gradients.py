"""Block conjugate gradients: one symmetric positive system, many right-hand sides that share what each has learnt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, qr, solve_triangular

from encoders.document import FloatArray

Float64Array = npt.NDArray[np.float64]
Columns = npt.NDArray[np.floating]
Operator = Callable[[Columns], Columns]
"""(n, columns) → (n, columns) in the same precision."""

TOLERANCE = 0.01
"""Norm of a column's residual over that of its right-hand side, the paper's (section 4.1)."""
_STEPS = 500
_REFINEMENTS = 10
_CHECKED = 4
"""Sums of columns that are checked."""


def solve(operator: Operator, right: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
    """Solve for all columns at once in float32, checked in float64, and again while the residual is too large.

    The check is of a few sums of all columns with random signs, whose residuals are about as large as all columns'
    together: it costs a fraction of a step, and float32 is seen to have lost its way in any of them.

    Args:
        operator: symmetric and positive definite.
        right: (n, columns) float32.
        tolerance: of each column's residual relative to its right-hand side.

    Raises:
        ArithmeticError: the residual does not shrink: the system is too ill-conditioned for float32.
    """
    solution = _block(operator, right, np.float32(tolerance / 2))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (right.shape[1], _CHECKED))
    left = right @ signs - operator(solution @ signs)
    if np.linalg.norm(left) <= tolerance * np.linalg.norm(right) * _CHECKED**0.5:
        return solution
    return _refined(operator, right, solution, tolerance)


def _refined(operator: Operator, right: FloatArray, first: FloatArray, tolerance: float) -> FloatArray:
    """Solve for what is left, column by column in float64, until each is within the tolerance."""
    exact, solution = right.astype(np.float64), first.astype(np.float64)
    scale = np.linalg.norm(exact, axis=0)
    worst = np.inf
    for _ in range(_REFINEMENTS):
        residual = exact - operator(solution)
        before, worst = worst, float(np.max(np.linalg.norm(residual, axis=0) / np.where(scale > 0, scale, 1)))
        if worst <= tolerance:
            return solution.astype(np.float32)
        if worst > before / 2:
            break
        solution += _block(operator, residual.astype(np.float32), np.float32(tolerance / 2))
    raise ArithmeticError(f"residual {worst:.1e} of a system of {len(right):,} equations does not shrink")


def _block(operator: Operator, right: FloatArray, tolerance: np.float32) -> FloatArray:
    """Conjugate gradients with an orthonormal block of residuals (Dubrulle 2001, BCGrQ)."""
    scale = np.linalg.norm(right, axis=0)
    bar = tolerance * np.where(scale > 0, scale, 1)
    block, size = orthonormal(right)
    solution = np.zeros_like(right)
    direction = block
    for _ in range(_STEPS):
        if (np.linalg.norm(size, axis=0) <= bar).all():
            break
        image = np.asarray(operator(direction), dtype=np.float32)
        step = _inverse((direction.T @ image).astype(np.float64)).astype(np.float32)
        solution += direction @ (step @ size)
        block, shrunk = orthonormal(block - image @ step)
        size = shrunk @ size
        direction = block + direction @ shrunk.T
    return solution


def _inverse(gram: Float64Array) -> Float64Array:
    """By a Cholesky factor; of a matrix without one the pseudo-inverse."""
    try:
        return np.asarray(cho_solve((cholesky(gram, lower=True, check_finite=False), True), np.eye(len(gram))))
    except LinAlgError:
        return np.asarray(np.linalg.pinv(gram, hermitian=True))


def orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Q with orthonormal columns and R, by Cholesky of the Gram matrix, and by Householder where that fails.

    Twice where columns are nearly dependent, since float32 leaves their Q less than orthogonal. Columns that depend on
    others give arbitrary orthonormal ones, and rows of nothing in R.
    """
    try:
        found, upper, angle = _by_cholesky(columns)
        if angle < _CLEAR:
            found, correction, _ = _by_cholesky(found)
            upper = correction @ upper
    except LinAlgError:
        found, rest = qr(columns, mode="economic", check_finite=False)
        return found, rest
    return found, upper.astype(np.float32)


def _by_cholesky(columns: FloatArray) -> tuple[FloatArray, Float64Array, float]:
    """Q, R, and the sine of the smallest angle between a column and those before it."""
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
