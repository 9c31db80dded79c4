"""Solutions in float32, checked and refined in float64."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray

Columns = npt.NDArray[np.floating]
Operator = Callable[[Columns], Columns]
"""(n, columns) → (n, columns) in the same precision; symmetric and positive definite."""

_CHECKED = 4
"""Number of random sums of columns whose residuals are checked."""


def solve(
    operator: Operator, inverse: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float
) -> FloatArray:
    """Solve for all columns of (n, columns) float32 by an inverse that float32 makes inexact.

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
