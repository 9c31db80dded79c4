"""One language's ridge regression: (XᵀX + λI)⁻¹Xᵀ applied to many right-hand sides at once."""

from collections.abc import Callable

import numpy as np
from scipy.sparse import csc_array, csr_array

from encoders.cr5.algebra import conjugate_gradients
from encoders.cr5.algebra.conjugate_gradients import TOLERANCE, Columns
from encoders.document import FloatArray

DIRECT = 4_000
"""Documents, or words if they are fewer, up to which a system is factorised; larger systems are solved iteratively."""


_Solver = Callable[[FloatArray, float], FloatArray]
"""The inverse of a system, applied to right-hand sides within a tolerance."""


class Ridge:
    """Ridge regression on the rows of one language's X, (documents, words); dual: (XᵀX + λI)⁻¹Xᵀ = Xᵀ(XXᵀ + λI)⁻¹."""

    def __init__(self, matrix: csr_array, lam: float, solver: _Solver, *, is_dual: bool) -> None:
        self._matrix, self._lam, self._solver, self._is_dual = matrix, np.float32(lam), solver, is_dual

    def solve(self, targets: FloatArray, tolerance: float = np.inf) -> FloatArray:
        """Coefficients, linear in V (documents, columns): of its shape, or (words, columns) if words are fewer."""
        return self._solver(targets if self._is_dual else self._matrix.T @ targets, tolerance)

    def predicted(self, targets: FloatArray, solved: FloatArray) -> FloatArray:
        """X(XᵀX + λI)⁻¹Xᵀ V, (documents, columns): the regression's prediction of V for the training documents."""
        return targets - self._lam * solved if self._is_dual else self._matrix @ solved

    def weights(self, solved: FloatArray) -> FloatArray:
        """(XᵀX + λI)⁻¹Xᵀ V, (words, columns), from the coefficients that ``solve`` returned for V."""
        return self._matrix.T @ solved if self._is_dual else solved


def ridge(matrix: csr_array, lam: float, *, direct: int = DIRECT, tolerance: float = TOLERANCE) -> Ridge:
    """Return the regression on (documents, words) float32: dual if documents are not more than words; λ is above 0.

    A system of at most ``direct`` equations is factorised. Raises LinAlgError: the system has no Cholesky factor in
    float32; ArithmeticError: from the regression, if float32 can't hold a solution.
    """
    documents, words = matrix.shape
    is_dual = documents <= words
    system = _System(matrix if is_dual else matrix.T, lam)
    solver = system.factorised(tolerance) if min(matrix.shape) <= direct else system.iterated(tolerance)
    return Ridge(matrix, lam, solver, is_dual=is_dual)


class _System:
    """AAᵀ + λI: A is X, or Xᵀ if words are fewer than documents."""

    def __init__(self, wide: csr_array | csc_array, lam: float) -> None:
        self._wide, self._lam = wide, lam

    def __call__(self, columns: Columns) -> Columns:
        return np.asarray(self._wide @ (self._wide.T @ columns) + columns.dtype.type(self._lam) * columns)

    def iterated(self, tolerance: float) -> _Solver:
        """Solve by block conjugate gradients, which hold no matrix but X."""
        return lambda right, finer: conjugate_gradients.solve(self, right, min(tolerance, finer))

    def factorised(self, tolerance: float) -> _Solver:
        matrix = _gram(csr_array(self._wide))
        matrix[np.diag_indices_from(matrix)] += self._lam
        factor = _Factor(matrix)
        return lambda right, finer: conjugate_gradients.solve_refined(
            self, factor.solve, right, min(_EXACT, tolerance, finer)
        )


class _Factor:
    """A Cholesky factor in float32, by blocks: their products release Python's lock, which SciPy's factor holds."""

    def __init__(self, matrix: FloatArray) -> None:
        """Factorise a matrix in its own memory, of which the upper triangle is then not used."""
        self._lower = matrix
        self._blocks: list[tuple[slice, FloatArray]] = []
        for start in range(0, len(matrix), _BLOCK):
            rows = slice(start, min(start + _BLOCK, len(matrix)))
            column = matrix[start:, rows] - matrix[start:, :start] @ matrix[rows, :start].T
            inverse = np.linalg.inv(np.linalg.cholesky(column[: rows.stop - start]))
            matrix[start:, rows] = column @ inverse.T
            self._blocks.append((rows, inverse))

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve for all columns of (n, columns): forwards by the factor, backwards by its transpose."""
        solution = right.copy()
        for rows, inverse in self._blocks:
            solution[rows] = inverse @ (solution[rows] - self._lower[rows, : rows.start] @ solution[: rows.start])
        for rows, inverse in reversed(self._blocks):
            solution[rows] = inverse.T @ (solution[rows] - self._lower[rows.stop :, rows].T @ solution[rows.stop :])
        return solution


_BLOCK = 128
"""Rows of a block of a factor."""
_EXACT = 1e-4
"""Tolerance of a solution by a factor, whose rounding errors are about as large; a correction costs little."""
_FREQUENT = 1 / 20
"""Share of rows above which a column's products are quicker as a dense matrix (measured with 2,700 rows)."""
_SLAB = 512
"""Frequent columns, and rows of products, that are made dense at once."""


def _gram(matrix: csr_array) -> FloatArray:
    """AAᵀ as a dense matrix, (rows, rows) float32: it has hardly any zeros."""
    rows, columns = matrix.shape
    frequent = np.bincount(matrix.indices, minlength=columns) > _FREQUENT * rows
    numbers = np.flatnonzero(frequent)
    dense = matrix[:, numbers[:_SLAB]].toarray()
    gram: FloatArray = dense @ dense.T
    for start in range(_SLAB, len(numbers), _SLAB):
        dense = matrix[:, numbers[start : start + _SLAB]].toarray()
        gram += dense @ dense.T
    rest = csr_array(matrix[:, ~frequent])
    transposed = csr_array(rest.T)
    for start in range(0, rows, _SLAB):
        gram[start : start + _SLAB] += (rest[start : start + _SLAB] @ transposed).toarray()
    return gram
