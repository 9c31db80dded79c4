"""One language's ridge regression: (XᵀX + λI)⁻¹Xᵀ applied to many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from encoders.cr5.algebra.conjugate_gradients import TOLERANCE, Columns, solve
from encoders.document import Float64Array, FloatArray

DIRECT = 4_000
"""Documents, or words if they are fewer, up to which a system is factorised; larger systems are solved iteratively."""


class Ridge(Protocol):
    """Ridge regression on the rows of one language's X, (documents, words)."""

    def solve(self, targets: FloatArray, tolerance: float = np.inf) -> FloatArray:
        """Coefficients of the regression on V, (documents, columns) or, if words are fewer, (words, columns).

        Coefficients are linear in V, (documents, columns); ``tolerance`` may ask for a finer iterative solution.
        """
        ...

    def predicted(self, targets: FloatArray, solved: FloatArray) -> FloatArray:
        """X(XᵀX + λI)⁻¹Xᵀ V, (documents, columns): the regression's prediction of V for the training documents."""
        ...

    def weights(self, solved: FloatArray) -> FloatArray:
        """(XᵀX + λI)⁻¹Xᵀ V, (words, columns), from the coefficients that ``solve`` returned for V."""
        ...


def ridge(matrix: csr_array, lam: float, *, direct: int = DIRECT, tolerance: float = TOLERANCE) -> Ridge:
    """Return the regression on (documents, words) float32: dual if documents are not more than words.

    A system of at most ``direct`` equations is factorised; λ, ``lam``, is above 0.
    """
    solver = _Factor(matrix, lam) if min(matrix.shape) <= direct else _Iteration(matrix, lam, tolerance)
    return _Dual(matrix, lam, solver) if _is_wide(matrix) else _Primal(matrix, solver)


def _is_wide(matrix: csr_array) -> bool:
    return bool(matrix.shape[0] <= matrix.shape[1])


_Solver = Callable[[FloatArray, float], FloatArray]
"""The inverse of XXᵀ + λI where X is wide, of XᵀX + λI otherwise, applied to right-hand sides within a tolerance."""


class _Factor:
    """A Cholesky factor in float64."""

    def __init__(self, matrix: csr_array, lam: float) -> None:
        gram = _gram(matrix if _is_wide(matrix) else csr_array(matrix.T))
        gram[np.diag_indices_from(gram)] += lam
        self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)

    def __call__(self, right: FloatArray, tolerance: float) -> FloatArray:  # noqa: ARG002 - only the iteration needs it
        return np.asarray(cho_solve(self._factor, right.astype(np.float64), check_finite=False), dtype=np.float32)


_ROWS = 128
"""Rows that are made dense at once to be multiplied with the whole matrix."""


def _gram(matrix: csr_array) -> Float64Array:
    """XXᵀ as a dense matrix: it has hardly any zeros."""
    gram = np.empty((matrix.shape[0], matrix.shape[0]))
    for start in range(0, len(gram), _ROWS):
        gram[:, start : start + _ROWS] = matrix @ matrix[start : start + _ROWS].toarray(order="F").T
    return gram.T


class _Iteration:
    """Block conjugate gradients, which hold no matrix but X."""

    def __init__(self, matrix: csr_array, lam: float, tolerance: float) -> None:
        self._wide = matrix if _is_wide(matrix) else matrix.T
        self._lam, self._tolerance = lam, tolerance

    def __call__(self, right: FloatArray, tolerance: float) -> FloatArray:
        return solve(self._gram, right, min(self._tolerance, tolerance))

    def _gram(self, columns: Columns) -> Columns:
        image: Columns = self._wide @ (self._wide.T @ columns) + columns.dtype.type(self._lam) * columns
        return image


class _Dual:
    """(XᵀX + λI)⁻¹Xᵀ = Xᵀ(XXᵀ + λI)⁻¹."""

    def __init__(self, matrix: csr_array, lam: float, solver: _Solver) -> None:
        self._matrix, self._lam, self._solver = matrix, np.float32(lam), solver

    def solve(self, targets: FloatArray, tolerance: float = np.inf) -> FloatArray:
        return self._solver(targets, tolerance)

    def predicted(self, targets: FloatArray, solved: FloatArray) -> FloatArray:
        return targets - self._lam * solved

    def weights(self, solved: FloatArray) -> FloatArray:
        weights: FloatArray = self._matrix.T @ solved
        return weights


class _Primal:
    def __init__(self, matrix: csr_array, solver: _Solver) -> None:
        self._matrix, self._solver = matrix, solver

    def solve(self, targets: FloatArray, tolerance: float = np.inf) -> FloatArray:
        return self._solver(self._matrix.T @ targets, tolerance)

    def predicted(self, targets: FloatArray, solved: FloatArray) -> FloatArray:  # noqa: ARG002 - only the dual needs it
        predictions: FloatArray = self._matrix @ solved
        return predictions

    def weights(self, solved: FloatArray) -> FloatArray:
        return solved
