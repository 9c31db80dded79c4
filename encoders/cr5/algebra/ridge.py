"""One language's ridge regression: (XᵀX + λI)⁻¹Xᵀ applied to many right-hand sides at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from encoders.cr5.algebra.conjugate_gradients import TOLERANCE, Columns, Float64Array, solve
from encoders.document import FloatArray

DIRECT = 4_000
"""Documents, or words where they are fewer, up to which a system is factorised; larger ones are iterated on."""


class Ridge(Protocol):
    """Ridge regression on the rows of one language's X, (documents, words)."""

    def solve(self, targets: FloatArray, tolerance: float = np.inf) -> FloatArray:
        """Its coefficients, (documents or words, columns), whichever are fewer: linear in V (documents, columns).

        Args:
            targets: V.
            tolerance: of what is iterated, if it is to be finer than that of all others.
        """
        ...

    def predicted(self, targets: FloatArray, solved: FloatArray) -> FloatArray:
        """X(XᵀX + λI)⁻¹Xᵀ V, (documents, columns): what regression on V predicts for its own documents."""
        ...

    def weights(self, solved: FloatArray) -> FloatArray:
        """(XᵀX + λI)⁻¹Xᵀ V, (words, columns), of what was solved for V."""
        ...


def ridge(matrix: csr_array, lam: float, *, direct: int = DIRECT, tolerance: float = TOLERANCE) -> Ridge:
    """Choose the form: the dual where documents are fewer than words, a factor where the system is small.

    Args:
        matrix: (documents, words) float32.
        lam: λ, above 0.
        direct: size up to which a system is factorised.
        tolerance: of what is iterated.
    """
    solver = _Factor(matrix, lam) if min(matrix.shape) <= direct else _Iteration(matrix, lam, tolerance)
    return _Dual(matrix, lam, solver) if _is_wide(matrix) else _Primal(matrix, solver)


def _is_wide(matrix: csr_array) -> bool:
    return bool(matrix.shape[0] <= matrix.shape[1])


class _Solver(Protocol):
    """The inverse of XXᵀ + λI where X is wide, of XᵀX + λI otherwise."""

    def __call__(self, right: FloatArray, tolerance: float) -> FloatArray: ...


class _Factor:
    """A Cholesky factor in float64."""

    def __init__(self, matrix: csr_array, lam: float) -> None:
        gram = _gram(matrix if _is_wide(matrix) else csr_array(matrix.T))
        gram[np.diag_indices_from(gram)] += lam
        self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)

    def __call__(self, right: FloatArray, tolerance: float) -> FloatArray:  # noqa: ARG002 - the iteration's need
        return np.asarray(cho_solve(self._factor, right.astype(np.float64), check_finite=False), dtype=np.float32)


_ROWS = 128
"""Rows that are written out at a time to be multiplied with all."""


def _gram(matrix: csr_array) -> Float64Array:
    """XXᵀ, dense as it nearly always is."""
    gram = np.empty((matrix.shape[0], matrix.shape[0]))
    for start in range(0, len(gram), _ROWS):
        gram[:, start : start + _ROWS] = matrix @ matrix[start : start + _ROWS].toarray(order="F").T
    return gram.T


class _Iteration:
    """Block conjugate gradients; no matrix but X is held."""

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
        found: FloatArray = self._matrix.T @ solved
        return found


class _Primal:
    def __init__(self, matrix: csr_array, solver: _Solver) -> None:
        self._matrix, self._solver = matrix, solver

    def solve(self, targets: FloatArray, tolerance: float = np.inf) -> FloatArray:
        return self._solver(self._matrix.T @ targets, tolerance)

    def predicted(self, targets: FloatArray, solved: FloatArray) -> FloatArray:  # noqa: ARG002 - the dual form's need
        found: FloatArray = self._matrix @ solved
        return found

    def weights(self, solved: FloatArray) -> FloatArray:
        return solved
