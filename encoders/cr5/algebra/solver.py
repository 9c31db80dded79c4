"""Reduced-rank ridge regression from languages' bags of words to concepts (Cr5, section 3.2): Φ with orthonormal rows.

X (documents, words) has one block for each language, Y (documents, concepts) is one-hot; both are centred by rank-one
terms that are never computed. With B = XᵀX + λI (block-diagonal), S = X B⁻¹ Xᵀ and s = S1, the Woodbury identity of
section 5 lets each language be solved for separately:

    X (X̂ᵀX̂ + λI)⁻¹ Xᵀ = S + s sᵀ / (n − 1ᵀs)

In the paper's B⁻¹ − ζζᵀ, ζ is imaginary, since n μᵀB⁻¹μ < 1: in real numbers the rank-one term is added.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from encoders.cr5.algebra import conjugate_gradients, eigenvectors
from encoders.cr5.algebra.eigenvectors import Leading
from encoders.cr5.algebra.language_ridge import DIRECT, Ridge, ridge
from encoders.document import Float64Array, FloatArray, IntArray
from encoders.machine.cores import available_cores

T = TypeVar("T")

KEPT = 2**31
"""Maximum bytes of solutions that are kept during the search for eigenvectors."""
_OF_ONES = 1e-5
"""Tolerance of the solution for ones: centring divides by n − 1ᵀs, a small difference of large numbers."""
_NOTHING = 1e-6
"""Share of the largest variance below which a direction of Φ is noise. Also the share of the largest possible
eigenvalue (the most documents of a concept, all predicted rightly) below which an eigenvalue is float32 rounding."""


@dataclass(frozen=True)
class Block:
    """The training documents of one language."""

    matrix: csr_array  # (documents, words) float32 bags of words
    concepts: IntArray  # (documents,) number of each document's concept, from 0


@dataclass(frozen=True)
class Solution:
    """The solution of the reduced-rank ridge regression."""

    # by language, (words, dimensions) float32: Φᵀ, whose columns are orthonormal over all languages. If a language has
    # fewer documents than words, its part is computed at each access and not kept.
    columns: Mapping[str, FloatArray]
    dimensions: int
    eigenvalues: Float64Array  # of the concepts' K × K matrix (eq. 12), largest first.
    residual: float = 0.0  # largest residual of an eigenvector, over the largest eigenvalue


def solve(
    blocks: Mapping[str, Block],
    dimensions: int,
    lam: float,
    *,
    seed: int = 0,
    direct: int = DIRECT,
    small: int = eigenvectors.SMALL,
    tolerance: float = conjugate_gradients.TOLERANCE,
    progress: Callable[[int], None] | None = None,
) -> Solution:
    """Learn Φ from the languages' documents with λ ``lam``, above 0.

    The solution has fewer dimensions than asked if there are too few concepts, or words to tell concepts apart, and
    none if documents don't differ or λ is beyond float32. Up to the sizes ``direct`` and ``small`` a language's system
    is factorised and the concepts' matrix is computed in full. ``progress`` gets the number of vectors that the
    operator was applied to. Raises ArithmeticError or LinAlgError: the equations are too ill-conditioned for float32.
    """
    with ThreadPoolExecutor(available_cores()) as pool, threadpool_limits(1):
        regression = _Regression(blocks, lam, direct, tolerance, pool)
        dimensions = min(dimensions, regression.concepts - 1)
        top = eigenvectors.leading(
            regression.concepts_seen, regression.concepts, dimensions, seed=seed, small=small, progress=progress
        )
        sound = top.values > _NOTHING * regression.most_documents
        top = Leading(top.vectors[:, sound], top.values[sound], top.coefficients[:, sound], top.residual)
        columns = regression.orthonormal_columns(top)
        return Solution(columns, columns.dimensions, top.values, top.residual)


class _Columns(Mapping[str, FloatArray]):
    """Φᵀ by language, computed from the language's solution at each access."""

    def __init__(self, ridges: Mapping[str, Ridge], solved: Mapping[str, FloatArray], dimensions: int) -> None:
        self._ridges, self._solved = ridges, solved
        self.dimensions = dimensions

    def __getitem__(self, lang: str) -> FloatArray:
        return self._ridges[lang].weights(self._solved[lang])

    def __contains__(self, lang: object) -> bool:
        return lang in self._ridges

    def __iter__(self) -> Iterator[str]:
        return iter(self._ridges)

    def __len__(self) -> int:
        return len(self._ridges)


class _Regression:
    """Regression of concepts on the bags of words of all languages, with one thread for each language."""

    def __init__(
        self, blocks: Mapping[str, Block], lam: float, direct: int, tolerance: float, pool: ThreadPoolExecutor
    ) -> None:
        self._pool = pool
        self._labels = {lang: blocks[lang].concepts for lang in blocks}
        self.concepts = 1 + max(int(labels.max()) for labels in self._labels.values())
        self._members = {
            lang: csr_array(
                (np.ones(len(labels), np.float32), (labels, np.arange(len(labels)))), shape=(self.concepts, len(labels))
            )
            for lang, labels in self._labels.items()
        }
        self._ridges = self._each(lambda lang: ridge(blocks[lang].matrix, lam, direct=direct, tolerance=tolerance))
        self.most_documents = int(np.bincount(np.concatenate(list(self._labels.values()))).max())
        self._documents = sum(map(len, self._labels.values()))
        ones = {lang: np.ones((len(labels), 1), dtype=np.float32) for lang, labels in self._labels.items()}
        self._of_ones = self._each(lambda lang: self._ridges[lang].solve(ones[lang], _OF_ONES))
        self._ones = self._each(lambda lang: self._ridges[lang].predicted(ones[lang], self._of_ones[lang]))
        self._divisor = self._documents - sum(float(part.sum(dtype=np.float64)) for part in self._ones.values())
        if not self._divisor > 0:
            raise ArithmeticError(f"λ {lam:g} is lost in rounding")
        self._kept: dict[str, list[FloatArray]] | None = {lang: [] for lang in self._labels}

    def concepts_seen(self, concepts: FloatArray) -> FloatArray:
        """Ŷᵀ X̂ (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U (eq. 12), (concepts, columns)."""
        centring = self._centring(concepts)
        solved = self._each(lambda lang: self._solved(lang, concepts, centring))
        whole = centring.shared - centring.mean
        seen = self._each(lambda lang: self._ridges[lang].predicted(concepts[self._labels[lang]] + whole, solved[lang]))
        self._keep(solved)
        mean = sum(predictions.sum(axis=0, dtype=np.float64) for predictions in seen.values()) / self._documents
        total = np.zeros_like(concepts)
        for lang, predictions in seen.items():
            total += self._members[lang] @ (predictions - np.asarray(mean, dtype=np.float32))
        return total

    def orthonormal_columns(self, top: Leading) -> _Columns:
        """Φᵀ = (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U (eq. 14), rotated and scaled to orthonormal columns (eq. 15)."""
        centring = self._centring(top.vectors)

        def solved(lang: str) -> tuple[FloatArray, Float64Array]:
            if self._kept is None:
                solution = self._solved(lang, top.vectors, centring)
            else:
                solution = np.concatenate(self._kept.pop(lang), axis=1) @ top.coefficients
            weights = self._ridges[lang].weights(solution)
            return solution, np.asarray(weights.T @ weights, dtype=np.float64)

        solutions = self._each(solved)
        inner = np.asarray(sum(products for _, products in solutions.values()))
        variances, rotation = np.linalg.eigh((inner + inner.T) / 2)
        clear = variances > _NOTHING * variances.max(initial=0)
        scaled = (rotation[:, clear] / np.sqrt(variances[clear]))[:, ::-1].astype(np.float32)
        return _Columns(
            self._ridges, {lang: solution @ scaled for lang, (solution, _) in solutions.items()}, int(clear.sum())
        )

    def _keep(self, solved: dict[str, FloatArray]) -> None:
        """Keep solutions, of which Φ is a linear combination, up to ``KEPT`` bytes; beyond it, Φ is solved for anew."""
        if self._kept is None:
            return
        for lang, solution in solved.items():
            self._kept[lang].append(solution)
        if sum(solution.nbytes for solutions in self._kept.values() for solution in solutions) > KEPT:
            self._kept = None

    def _each(self, work: Callable[[str], T]) -> dict[str, T]:
        return dict(zip(self._labels, self._pool.map(work, self._labels), strict=True))

    def _solved(self, lang: str, concepts: FloatArray, centring: "_Centring") -> FloatArray:
        """A language's part of (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U, in the primal or dual form of its ridge regression."""
        solution = self._ridges[lang].solve(concepts[self._labels[lang]] - centring.mean)
        solution += self._of_ones[lang] * centring.shared
        return solution

    def _centring(self, concepts: FloatArray) -> "_Centring":
        total = sum(np.bincount(labels, minlength=self.concepts) for labels in self._labels.values())
        mean = np.asarray(total @ concepts.astype(np.float64) / self._documents, dtype=np.float32)
        parts = self._each(lambda lang: self._ones[lang].T.astype(np.float64) @ (concepts[self._labels[lang]] - mean))
        return _Centring(mean, np.asarray(sum(parts.values()) / self._divisor, dtype=np.float32))


@dataclass(frozen=True)
class _Centring:
    """What centring over all languages changes in one language's targets."""

    mean: FloatArray  # (columns,) mean of YU over all documents, which centring subtracts
    shared: FloatArray  # (1, columns) sᵀŶU / (n − 1ᵀs): all that a language's regression needs from the other languages
