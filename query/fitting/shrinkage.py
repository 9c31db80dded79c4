"""Shrinkage: the estimates of a language with few vectors are drawn towards those of all languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.methods.moments import Moments, PartMoments, principal_axes
from query.calibration.calibration import Component

_FULL = 32
"""Number of vectors with which a language has half of its full weight in the pooled mean; also the weight, in vectors,
of the covariance within all languages."""


class Shrunk:
    """Languages' moments, each shrunk towards those of all languages; fewer vectors shrink more.

    The mean is the empirical Bayes estimate: a language's mean has the weight n of its n vectors, the pooled mean the
    variance within languages over the variance between their means. Both variances are unbiased: the scatter around a
    language's mean is divided by the degrees of freedom, and the scatter of means that few vectors cause is subtracted
    from the variance between languages. If the variances can't be estimated, each language has the pooled mean. A
    subspace is that of the shrunk mean and of the covariance, to which the covariance within all languages is added
    with the weight of ``_FULL`` vectors.
    """

    def __init__(self, moments: Mapping[str, Moments], like: Shrunk | None = None) -> None:
        """Shrink the moments of each language; at least one language is needed, and its count may be 0.

        The trust is that of ``like`` if vectors are not drawn one by one: a document's passages come together, so many
        passages of few documents say no more than the documents do.
        """
        self._moments = moments
        self._like = like
        self._dim = next(iter(moments.values())).dim
        self._seen = [language for language in moments.values() if language.count]
        counts = np.array([language.count for language in self._seen], dtype=np.float64)
        trust = counts / (counts + _FULL)
        self._weights = trust / max(float(trust.sum()), 1e-12)
        self._mean = sum((weight * language.mean for weight, language in self._weighted()), np.zeros(self._dim))
        self._prior = self._relative_variance(counts)

    def _weighted(self) -> Iterable[tuple[float, Moments]]:
        """Weight in the pooled mean, and moments, of each language with vectors."""
        return zip(self._weights.tolist(), self._seen, strict=True)

    def _relative_variance(self, counts: Float64Array) -> float:
        """Variance within languages over the variance between their means; infinite if there is none between."""
        freedom, correction = float((counts - 1).sum()), 1.0 - float((self._weights**2).sum())
        if not freedom or correction <= 0.0:
            return np.inf
        within = sum(language.count * language.spread for language in self._seen) / freedom
        scatter = sum(
            weight * float(((language.mean - self._mean) ** 2).sum()) for weight, language in self._weighted()
        )
        between = (scatter - within * float((self._weights * (1 - self._weights) / counts).sum())) / correction
        return within / between if between > 0.0 else np.inf

    def trust(self, lang: str) -> float:
        """Share of a language's own mean in its estimate, 0 to 1."""
        count = self._moments[lang].count
        if self._like:
            return self._like.trust(lang) if count else 0.0
        return count / (count + self._prior) if count else 0.0

    def mean(self, lang: str) -> FloatArray:
        """(dim,) shrunk mean of a language."""
        mean: FloatArray = (self._mean + self.trust(lang) * (self._moments[lang].mean - self._mean)).astype(np.float32)
        return mean

    def subspace(self, lang: str, rank: int) -> FloatArray:
        """(rank, dim) principal directions of a language; fewer rows if all vectors together span fewer dimensions."""
        if not rank:
            return np.zeros((0, self._dim), dtype=np.float32)
        moments, mean = self._moments[lang], self.mean(lang).astype(np.float64)
        covariance = (_scatter(moments) + _FULL * self._within) / (moments.count + _FULL)
        return principal_axes(np.outer(mean, mean) + covariance)[:rank]

    @cached_property
    def _within(self) -> Float64Array:
        """(dim, dim) covariance within languages; zero if no language has two vectors."""
        freedom = max(sum(language.count - 1 for language in self._seen), 1)
        return np.asarray(sum(map(_scatter, self._seen), np.zeros((self._dim, self._dim))) / freedom)

    @cached_property
    def _second(self) -> Float64Array:
        """(dim, dim) pooled second moment."""
        zero = np.zeros((self._dim, self._dim))
        return np.asarray(
            sum((weight * language.second / language.count for weight, language in self._weighted()), zero)
        )

    def pooled(self, rank: int) -> Component:
        """The component for a language without moments."""
        subspace = principal_axes(self._second)[:rank] if rank else np.zeros((0, self._dim), dtype=np.float32)
        return Component(self._mean.astype(np.float32), subspace)


class ShrunkParts:
    """Languages' moments of vectors made of parts; each part is shrunk by itself."""

    def __init__(self, moments: Mapping[str, PartMoments], like: ShrunkParts | None = None) -> None:
        """Shrink the moments of each language; ``like`` as for ``Shrunk``."""
        self._slices: list[slice] = next(iter(moments.values())).parts.slices
        self.parts: list[Shrunk] = [
            Shrunk(
                {lang: language.moments[part] for lang, language in moments.items()}, like.parts[part] if like else None
            )
            for part in range(len(self._slices))
        ]

    def component(self, lang: str, rank: int) -> Component:
        """A language's component: its shrunk mean, and (rank · parts, dim) principal directions in each part."""
        return self._of_parts([Component(part.mean(lang), part.subspace(lang, rank)) for part in self.parts], rank)

    def pooled(self, rank: int) -> Component:
        """The component for a language without moments."""
        return self._of_parts([part.pooled(rank) for part in self.parts], rank)

    def _of_parts(self, components: Sequence[Component], rank: int) -> Component:
        mean = np.concatenate([component.mean for component in components])
        return Component(mean, self._joined([component.subspace for component in components], rank))

    def _joined(self, subspaces: Sequence[FloatArray], rank: int) -> FloatArray:
        """(rank · parts, dim) the parts' first directions, then their second, so that a lower rank is the first rows.

        A part with fewer directions has zero rows.
        """
        if len(subspaces) == 1:
            return subspaces[0]
        joined = np.zeros((rank, len(subspaces), self._slices[-1].stop), dtype=np.float32)
        for part, (columns, subspace) in enumerate(zip(self._slices, subspaces, strict=True)):
            joined[: len(subspace), part, columns] = subspace
        return joined.reshape(rank * len(subspaces), self._slices[-1].stop)


def _scatter(moments: Moments) -> Float64Array:
    """(dim, dim) sum of the outer products of the vectors without their mean."""
    return np.asarray(moments.second - np.outer(moments.total, moments.mean))
