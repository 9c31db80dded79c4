"""Linear concept compression: one space of codes for any number of languages (Tashu et al. 2024, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.maps.ridge import AlignedMoments, RidgePath, require_pairs
from encoders.methods.moments import Float64Array


class LCC:
    """Reduced-rank ridge regression through several spaces at once.

    Each language's rows alone, zeros in the place of the others', predict the rows of all languages side by side; a
    document's code is its prediction on the first principal axes of what was predicted for all. As the inputs are
    blocks, each language's regression is one of its own.

    Attributes:
        dimensions: k, the width of a code.
        ridge: α in spreads, the mean squared distance of a vector from its mean; 0: the pseudo-inverse.
        means_: (dim,) mean that a row loses, by language.
        weights_: (dim, k) what a row is multiplied by from the right, by language.
    """

    def __init__(self, dimensions: int = 200, ridge: float = 0.1) -> None:
        """Nothing learnt yet."""
        self.dimensions, self.ridge = dimensions, ridge

    def fit(self, rows: Mapping[str, FloatArray]) -> Self:
        """Learn from aligned rows, (n, dim) by language.

        Raises:
            BadInput: the languages differ in rows, there is one language or one row only, or a number is not finite.
        """
        aligned = AlignedMoments({lang: some.shape[1] for lang, some in rows.items()})
        aligned.add(dict(rows))
        return self.fit_moments(aligned)

    def fit_moments(self, aligned: AlignedMoments, paths: Mapping[str, RidgePath] | None = None) -> Self:
        """Learn from moments of rows that were seen in whatever number of pieces.

        Args:
            aligned: the moments.
            paths: decompositions of the languages, where they are known already.
        """
        require_pairs(aligned.moments.count)
        langs = list(aligned.parts)
        if len(langs) < 2:
            raise BadInput(f"LCC compares languages, and there is one only ({', '.join(langs)}); give two or more")
        self.means_ = {lang: aligned.mean(lang) for lang in langs}
        predicting: dict[str, Float64Array] = {}
        width = aligned.moments.dim
        fitted = np.zeros((width, width))
        for lang in langs:
            inside = aligned.scatter(lang, lang)
            path = paths[lang] if paths else RidgePath(inside, aligned.spread(lang))
            targets = np.concatenate([aligned.scatter(lang, other) for other in langs], axis=1)
            weights = predicting[lang] = path.solve(targets, self.ridge)
            fitted += weights.T @ inside @ weights
        most = min(self.dimensions, len(fitted), len(langs) * aligned.moments.count)
        axes = _strongest(fitted, most)
        self.weights_ = {lang: weights @ axes for lang, weights in predicting.items()}
        return self

    def cut(self, dimensions: int) -> LCC:
        """The same with the first dimensions of its codes only."""
        shorter = LCC(dimensions, self.ridge)
        shorter.means_ = self.means_
        shorter.weights_ = {lang: weights[:, :dimensions] for lang, weights in self.weights_.items()}
        return shorter

    @property
    def languages(self) -> Sequence[str]:
        """Those that it knows."""
        return list(self.weights_)

    def transform(self, rows: FloatArray, lang: str) -> FloatArray:
        """Codes of a language's rows, (n, k) float32.

        Raises:
            BadInput: it was not learnt for the language.
        """
        if lang not in self.weights_:
            raise BadInput(f"the map knows no {lang!r}; it was learnt for {', '.join(self.weights_)}")
        return np.asarray((rows - self.means_[lang]) @ self.weights_[lang], dtype=np.float32)


def _strongest(second: Float64Array, count: int) -> Float64Array:
    """(dim, count) eigenvectors of a symmetric matrix, those of the largest eigenvalues first.

    Of a large matrix by subspace iteration: the spectrum falls, and the last of many axes decide nothing.
    """
    if len(second) <= _EXACT or 2 * count > len(second):
        return np.ascontiguousarray(np.linalg.eigh(second)[1][:, ::-1][:, :count])
    basis = np.random.default_rng(0).standard_normal((len(second), count + _MORE))
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(second @ basis)[0]
    _, turned = np.linalg.eigh(basis.T @ second @ basis)
    return np.ascontiguousarray((basis @ turned)[:, ::-1][:, :count])


_EXACT = 1024
_MORE, _ROUNDS = 50, 8
