"""Reduced-rank ridge regression from languages' bags of words to concepts (Cr5, section 3.2): Φ with orthonormal rows.

X (documents, words) is one block a language, Y (documents, concepts) one-hot, both centred by rank-one terms that are
never written out. With B = XᵀX + λI, a block a language, S = X B⁻¹ Xᵀ and s = S1, the Woodbury identity of section 5 is

    X (X̂ᵀX̂ + λI)⁻¹ Xᵀ = S + s sᵀ / (n − 1ᵀs)

(the paper's sign is a slip: n μᵀB⁻¹μ < 1, so the rank-one term is added). Every solve is therefore one language's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from encoders.cr5.algebra import conjugate_gradients, eigenvectors
from encoders.cr5.algebra.eigenvectors import Leading
from encoders.cr5.algebra.ridge import DIRECT, Ridge, ridge
from encoders.document import FloatArray
from encoders.session import available_cores

Float64Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

T = TypeVar("T")

KEPT = 2**31
"""Bytes of solutions that are kept while eigenvectors are looked for."""
_OF_ONES = 1e-5
"""Tolerance of the solution for ones: n − 1ᵀs, what centring divides by, is a small difference of large numbers."""
_NOTHING = 1e-6
"""Share of the largest variance below which a direction of Φ is noise, and share of the largest eigenvalue that there
could be (a concept's documents, all predicted rightly) below which an eigenvalue is what float32 rounds to."""


@dataclass(frozen=True)
class Block:
    """The training documents of one language.

    Attributes:
        matrix: (documents, words) float32 bags of words.
        concepts: (documents,) the concept of each, from 0.
    """

    matrix: csr_array
    concepts: IntArray


@dataclass(frozen=True)
class Solution:
    """What was learnt.

    Attributes:
        columns: by language, (words, dimensions) float32: Φᵀ, whose columns are orthonormal over all languages. Where
            documents are fewer than words, a language's are made each time they are asked for, and not kept.
        dimensions: how many.
        eigenvalues: of the concepts' K × K matrix (eq. 12), largest first.
        residual: the largest of an eigenvector, over the largest eigenvalue.
    """

    columns: Mapping[str, FloatArray]
    dimensions: int
    eigenvalues: Float64Array
    residual: float = 0.0


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
    """Learn Φ.

    Args:
        blocks: by language.
        dimensions: r; fewer come out where there are not so many concepts, or words to tell them by, and none where
            documents don't differ or λ is beyond float32.
        lam: λ, above 0.
        seed: of the eigenvectors' first block.
        direct: documents or words of a language up to which its system is factorised.
        small: concepts up to which their matrix is written out.
        tolerance: of iterated solutions.
        progress: is told of vectors that went through the operator.

    Raises:
        ArithmeticError: the equations are too ill-conditioned to be iterated on.
        LinAlgError: they are too ill-conditioned for a factor.
    """
    with ThreadPoolExecutor(available_cores()) as pool, threadpool_limits(1):
        regression = _Regression(blocks, lam, direct, tolerance, pool)
        dimensions = min(dimensions, regression.concepts - 1)
        top = eigenvectors.leading(
            regression.concepts_seen, regression.concepts, dimensions, seed=seed, small=small, progress=progress
        )
        known = top.values > _NOTHING * regression.most_documents
        top = Leading(top.vectors[:, known], top.values[known], top.made_of[:, known], top.residual)
        columns = regression.orthonormal_columns(top)
        return Solution(columns, columns.dimensions, top.values, top.residual)


class _Columns(Mapping[str, FloatArray]):
    """Φᵀ, made of each language's solution when it is asked for."""

    def __init__(self, ridges: Mapping[str, Ridge], solved: Mapping[str, FloatArray], dimensions: int) -> None:
        self._ridges, self._solved = ridges, solved
        self.dimensions = dimensions

    def __getitem__(self, lang: str) -> FloatArray:
        return self._ridges[lang].weights(self._solved[lang])

    def __iter__(self) -> Iterator[str]:
        return iter(self._ridges)

    def __len__(self) -> int:
        return len(self._ridges)


class _Regression:
    """Regression of concepts on bags of words, all languages together, each in a thread of its own.

    Attributes:
        concepts: how many.
        most_documents: of a concept.
    """

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
        self._of_ones = self._each(lambda lang: self._ridges[lang].solve(_ones(len(self._labels[lang])), _OF_ONES))
        self._ones = self._each(
            lambda lang: self._ridges[lang].predicted(_ones(len(self._labels[lang])), self._of_ones[lang])
        )
        self._rest = self._documents - sum(float(ones.sum(dtype=np.float64)) for ones in self._ones.values())
        if not self._rest > 0:
            raise ArithmeticError(f"λ {lam:g} is lost in rounding")
        self._kept: dict[str, list[FloatArray]] | None = {lang: [] for lang in self._labels}

    def concepts_seen(self, concepts: FloatArray) -> FloatArray:
        """Ŷᵀ X̂ (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U (eq. 12), (concepts, columns)."""
        moved = self._moved(concepts)
        solved = self._each(lambda lang: self._solved(lang, concepts, moved))
        seen = self._each(
            lambda lang: self._ridges[lang].predicted(self._targets(lang, concepts) + moved.whole, solved[lang])
        )
        self._keep(solved)
        of_all = sum(values.sum(axis=0, dtype=np.float64) for values in seen.values()) / self._documents
        total = np.zeros_like(concepts)
        for lang, values in seen.items():
            total += self._members[lang] @ (values - np.asarray(of_all, dtype=np.float32))
        return total

    def orthonormal_columns(self, top: Leading) -> _Columns:
        """Φᵀ = (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U (eq. 14) turned and scaled so that its columns are orthonormal (eq. 15)."""
        moved = self._moved(top.vectors)

        def solved(lang: str) -> tuple[FloatArray, Float64Array]:
            if self._kept is None:
                found = self._solved(lang, top.vectors, moved)
            else:
                found = np.concatenate(self._kept.pop(lang), axis=1) @ top.made_of
            weights = self._ridges[lang].weights(found)
            return found, np.asarray(weights.T @ weights, dtype=np.float64)

        each = self._each(solved)
        inner = np.asarray(sum(own for _, own in each.values()))
        variances, turn = np.linalg.eigh((inner + inner.T) / 2)
        kept = variances > _NOTHING * variances.max(initial=0)
        scaled = (turn[:, kept] / np.sqrt(variances[kept]))[:, ::-1].astype(np.float32)
        return _Columns(self._ridges, {lang: found @ scaled for lang, (found, _) in each.items()}, int(kept.sum()))

    def _keep(self, solved: dict[str, FloatArray]) -> None:
        """Keep what was solved, of which Φ is a sum, as long as there is room; else Φ is solved for by itself."""
        if self._kept is None:
            return
        for lang, values in solved.items():
            self._kept[lang].append(values)
        if sum(values.nbytes for each in self._kept.values() for values in each) > KEPT:
            self._kept = None

    def _each(self, work: Callable[[str], T]) -> dict[str, T]:
        return dict(zip(self._labels, self._pool.map(work, self._labels), strict=True))

    def _targets(self, lang: str, concepts: FloatArray) -> FloatArray:
        """YU of a language."""
        return concepts[self._labels[lang]]

    def _solved(self, lang: str, concepts: FloatArray, moved: _Moved) -> FloatArray:
        """A language's share of (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U, in its ridge's own form."""
        own = self._ridges[lang].solve(self._targets(lang, concepts) - moved.mean)
        own += self._of_ones[lang] * moved.shared
        return own

    def _moved(self, concepts: FloatArray) -> _Moved:
        total = sum(np.bincount(labels, minlength=self.concepts) for labels in self._labels.values())
        mean = np.asarray(total @ concepts.astype(np.float64) / self._documents, dtype=np.float32)
        parts = self._each(lambda lang: self._ones[lang].T.astype(np.float64) @ (self._targets(lang, concepts) - mean))
        return _Moved(mean, np.asarray(sum(parts.values()) / self._rest, dtype=np.float32))


@dataclass(frozen=True)
class _Moved:
    """How one language's targets are moved by those of the others.

    Attributes:
        mean: (columns,) of YU over all documents, which centring takes out.
        shared: sᵀŶU / (n − 1ᵀs), (1, columns): all that one language's regression has to know of the others.
    """

    mean: FloatArray
    shared: FloatArray

    @property
    def whole(self) -> FloatArray:
        """Both."""
        return self.shared - self.mean


def _ones(count: int) -> FloatArray:
    return np.ones((count, 1), dtype=np.float32)
