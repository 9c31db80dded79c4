"""Reduced-rank ridge regression from languages' bags of words to concepts (Cr5, section 3.2): Φ with orthonormal rows.

X (documents, words) is one block a language, Y (documents, concepts) one-hot, both centred by rank-one terms that are
never written out. With B = XᵀX + λI, a block a language, S = X B⁻¹ Xᵀ and s = S1, the Woodbury identity of section 5 is

    X (X̂ᵀX̂ + λI)⁻¹ Xᵀ = S + s sᵀ / (n − 1ᵀs)

(the paper's sign is a slip: n μᵀB⁻¹μ < 1, so the rank-one term is added). Every solve is therefore one language's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from encoders.cr5 import conjugate_gradients, eigenvectors
from encoders.cr5.ridge import DIRECT, Ridge, ridge
from encoders.document import FloatArray

Float64Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_NOTHING = 1e-6
"""Share of the largest variance below which a direction of Φ is noise."""


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
        columns: by language, (words, dimensions) float32: Φᵀ, whose columns are orthonormal over all languages.
        eigenvalues: (dimensions,) of the concepts' K × K matrix (eq. 12), largest first.
    """

    columns: Mapping[str, FloatArray]
    eigenvalues: Float64Array


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
        dimensions: r; fewer come out where there are not so many concepts, or words to tell them by.
        lam: λ, above 0.
        seed: of the eigenvectors' first block.
        direct: documents or words of a language up to which its system is factorised.
        small: concepts up to which their matrix is written out.
        tolerance: of iterated solutions.
        progress: is told of vectors that went through the operator.
    """
    regression = _Regression(blocks, lam, direct, tolerance)
    dimensions = min(dimensions, regression.concepts - 1)
    top, eigenvalues = eigenvectors.leading(
        regression.concepts_seen, regression.concepts, dimensions, seed=seed, small=small, progress=progress
    )
    return Solution(regression.orthonormal_columns(top), eigenvalues)


class _Regression:
    """Regression of concepts on bags of words, all languages together.

    Attributes:
        concepts: how many.
    """

    def __init__(self, blocks: Mapping[str, Block], lam: float, direct: int, tolerance: float) -> None:
        self.concepts = 1 + max(int(block.concepts.max()) for block in blocks.values())
        self._each: dict[str, Ridge] = {}
        self._labels: dict[str, IntArray] = {}
        self._members: dict[str, csr_array] = {}
        self._ones: dict[str, FloatArray] = {}
        for lang, block in blocks.items():
            count = len(block.concepts)
            self._each[lang] = ridge(block.matrix, lam, direct=direct, tolerance=tolerance)
            self._labels[lang] = block.concepts
            self._members[lang] = csr_array(
                (np.ones(count, np.float32), (block.concepts, np.arange(count))), shape=(self.concepts, count)
            )
            self._ones[lang] = self._each[lang].smooth(np.ones((count, 1), np.float32))
        self._documents = sum(map(len, self._labels.values()))
        self._rest = self._documents - sum(float(ones.sum(dtype=np.float64)) for ones in self._ones.values())

    def concepts_seen(self, concepts: FloatArray) -> FloatArray:
        """Ŷᵀ X̂ (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U (eq. 12), (concepts, columns)."""
        targets = self._centred(concepts)
        shared = self._shared(targets)
        seen = {lang: self._each[lang].smooth(targets[lang]) + self._ones[lang] * shared for lang in targets}
        mean = sum(values.sum(axis=0, dtype=np.float64) for values in seen.values()) / self._documents
        total = np.zeros_like(concepts)
        for lang, values in seen.items():
            total += self._members[lang] @ (values - np.asarray(mean, dtype=np.float32))
        return total

    def orthonormal_columns(self, concepts: FloatArray) -> dict[str, FloatArray]:
        """Φᵀ = (X̂ᵀX̂ + λI)⁻¹ X̂ᵀ Ŷ U (eq. 14) turned and scaled so that its columns are orthonormal (eq. 15)."""
        targets = self._centred(concepts)
        shared = self._shared(targets)
        targets = {lang: rows + shared for lang, rows in targets.items()}
        solved = {lang: self._each[lang].solve(rows) for lang, rows in targets.items()}
        inner = np.asarray(sum(self._each[lang].inner(rows, solved[lang]) for lang, rows in targets.items()))
        variances, turn = np.linalg.eigh((inner + inner.T) / 2)
        kept = variances > _NOTHING * variances[-1]
        scaled = (turn[:, kept] / np.sqrt(variances[kept]))[:, ::-1].astype(np.float32)
        return {lang: self._each[lang].weights(rows @ scaled) for lang, rows in solved.items()}

    def _centred(self, concepts: FloatArray) -> dict[str, FloatArray]:
        """ŶU by language."""
        targets = {lang: concepts[labels] for lang, labels in self._labels.items()}
        mean = sum(rows.sum(axis=0, dtype=np.float64) for rows in targets.values()) / self._documents
        return {lang: rows - np.asarray(mean, dtype=np.float32) for lang, rows in targets.items()}

    def _shared(self, targets: Mapping[str, FloatArray]) -> FloatArray:
        """sᵀV / (n − 1ᵀs), (1, columns): all that one language's regression has to know of the others."""
        total = sum(self._ones[lang].T.astype(np.float64) @ rows for lang, rows in targets.items())
        return np.asarray(total / self._rest, dtype=np.float32)
