"""Linear concept compression: a space of codes for any number of languages (Tashu et al. 2024, section 3.2.2)."""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.errors import BadInput
from encoders.maps.ridge_path import AlignedMoments, RidgePath, require_pairs

PUBLISHED_RIDGES = (1e-10, 1e-3, 1e-2, 0.1, 1.0, 10.0)
"""Ridges that the published code chooses from."""


class LCC:
    """Reduced-rank ridge regression through several spaces at once.

    The rows of one language, with zeros for the other languages, predict the concatenated rows of all languages: each
    language has a separate regression. A code is the prediction on the first principal axes of all predictions.

    Attributes:
        dimensions: k, the width of a code.
        ridge: α in spreads, the mean squared distance of a vector from its mean; 0: the pseudo-inverse.
        weights_: (dim, k) matrix that a centred row is multiplied by from the right, by language.
    """

    def __init__(self, dimensions: int = 200, ridge: float = 0.1) -> None:
        self.dimensions, self.ridge = dimensions, ridge

    def fit_moments(self, aligned: AlignedMoments, paths: Mapping[str, RidgePath] | None = None) -> Self:
        """Learn from aligned moments, and the languages' decompositions. Raises BadInput: one language or row only."""
        require_pairs(aligned.moments.count)
        langs = list(aligned.parts)
        if len(langs) < 2:
            raise BadInput(f"LCC compares languages, and there is one only ({', '.join(langs)}); give two or more")
        self.means_ = {lang: aligned.mean(lang) for lang in langs}
        regressions: dict[str, Float64Array] = {}
        width = aligned.moments.dim
        fitted = np.zeros((width, width))
        for lang in langs:
            scatter = aligned.scatter(lang, lang)
            path = paths[lang] if paths else RidgePath(scatter, aligned.spread(lang))
            targets = np.concatenate([aligned.scatter(lang, other) for other in langs], axis=1)
            weights = regressions[lang] = path.solve(targets, self.ridge)
            fitted += weights.T @ scatter @ weights
        count = min(self.dimensions, len(fitted), len(langs) * aligned.moments.count)
        axes = _leading_axes(fitted, count)
        self.weights_ = {lang: weights @ axes for lang, weights in regressions.items()}
        return self

    @classmethod
    def published(cls, x: FloatArray, y: FloatArray) -> Self:
        """LCC as published, of two languages' aligned rows (n, dim), with codes as wide as the input.

        The ridge, not scaled and the same for both languages, is that of ``PUBLISHED_RIDGES`` with the lowest squared
        error of leave-one-out cross-validation. Raises BadInput: rows don't fit, or there is one only.
        """
        aligned = AlignedMoments({"x": x.shape[1], "y": y.shape[1]})
        aligned.add({"x": x, "y": y})
        require_pairs(aligned.moments.count)
        x_rows, y_rows = x - aligned.mean("x"), y - aligned.mean("y")
        inputs = np.block([[x_rows, np.zeros_like(y_rows)], [np.zeros_like(x_rows), y_rows]])
        targets = np.tile(np.concatenate([x_rows, y_rows], axis=1), (2, 1))
        ridge = best_left_out(inputs, targets, PUBLISHED_RIDGES)
        paths = {lang: RidgePath(aligned.scatter(lang, lang), 1.0) for lang in aligned.parts}
        return cls(x.shape[1], ridge).fit_moments(aligned, paths)

    def transform(self, rows: FloatArray, lang: str) -> FloatArray:
        """Codes of a language's rows, (n, k) float32. Raises BadInput: the map was not learnt for the language."""
        if lang not in self.weights_:
            raise BadInput(f"the map knows no {lang!r}; it was learnt for {', '.join(self.weights_)}")
        return np.asarray((rows - self.means_[lang]) @ self.weights_[lang], dtype=np.float32)


def best_left_out(inputs: Float64Array, targets: Float64Array, ridges: Sequence[float]) -> float:
    """The ridge with the lowest squared error of leave-one-out cross-validation, with an intercept.

    ``inputs`` (n, dim) and ``targets`` (n, m) are centred. A row's error without it is c / G⁻¹ᵢᵢ, with G = XXᵀ + αI
    and c = G⁻¹y (Rifkin and Lippert, *Notes on regularized least squares*, 2007, section 4).
    """
    left, values, _ = np.linalg.svd(inputs, full_matrices=False)
    axes = values > _NOTHING * values[0]
    left = np.column_stack([left[:, axes], np.full(len(left), len(left) ** -0.5)])  # the intercept has no ridge
    squares = np.append(values[axes] ** 2, np.inf)
    projected = left.T @ targets

    def error(ridge: float) -> float:
        weights = 1 / (squares + ridge) - 1 / ridge
        inverse = (left**2) @ weights + 1 / ridge
        residuals = (left @ (weights[:, None] * projected) + targets / ridge) / inverse[:, None]
        return float(np.mean(residuals**2))

    return min(ridges, key=error)


def _leading_axes(second: Float64Array, count: int) -> Float64Array:
    """(dim, count) eigenvectors, largest eigenvalue first; of a large matrix by iteration: the last matter little."""
    if len(second) <= _EXACT or 2 * count >= len(second):
        return np.ascontiguousarray(np.linalg.eigh(second)[1][:, ::-1][:, :count])
    basis = np.random.default_rng(0).standard_normal((len(second), count + _MORE))
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(second @ basis)[0]
    _, rotation = np.linalg.eigh(basis.T @ second @ basis)
    return np.ascontiguousarray((basis @ rotation)[:, ::-1][:, :count])


_EXACT = 1024
_NOTHING = 1e-12
_MORE, _ROUNDS = 50, 8
