"""Shrinkage: what few vectors of a language say of it is drawn towards what all languages' vectors say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from encoders.document import FloatArray
from encoders.methods.moments import Float64Array, Moments, PartMoments, principal_axes
from query.calibration.calibration import Component

_FULL = 32
"""Vectors that count as much as all languages' do where means are pooled, and where a covariance is estimated."""


class Shrunk:
    """Languages' moments, each drawn towards those of all as far as its few vectors make it uncertain.

    The empirical Bayes estimate of a mean: n vectors count n, the pooled mean as many as the variance within languages
    is larger than that between their means. Both are unbiased: what n vectors scatter around their own mean is divided
    by the degrees of freedom, and what few vectors scatter their means by is no difference between languages. Where
    nothing can be known of either, each language is as all are together. A subspace is that of the mean so drawn and of
    the covariance, to which all languages' adds as ``_FULL`` vectors would.
    """

    def __init__(self, moments: Mapping[str, Moments], like: Shrunk | None = None) -> None:
        """Take the moments by language, one at least.

        Args:
            moments: some may have seen nothing.
            like: whose means are as certain, where vectors are not drawn one by one: a document's passages come
                together, so that many passages of few documents say no more than the documents do.
        """
        self._moments = moments
        self._like = like
        self._dim = next(iter(moments.values())).dim
        self._seen = [one for one in moments.values() if one.count]
        counts = np.array([one.count for one in self._seen], dtype=np.float64)
        trust = counts / (counts + _FULL)
        self._weights = trust / max(float(trust.sum()), 1e-12)
        self._mean = sum((w * one.mean for w, one in self._weighted()), np.zeros(self._dim))
        self._prior = self._relative_variance(counts)

    def _weighted(self) -> Iterable[tuple[float, Moments]]:
        return zip(self._weights.tolist(), self._seen, strict=True)

    def _relative_variance(self, counts: Float64Array) -> float:
        """Variance within languages over that between them; infinite where there is none between."""
        freedom, spare = float((counts - 1).sum()), 1.0 - float((self._weights**2).sum())
        if not freedom or spare <= 0.0:
            return np.inf
        within = sum(one.count * one.spread for one in self._seen) / freedom
        apart = sum(w * float(((one.mean - self._mean) ** 2).sum()) for w, one in self._weighted())
        between = (apart - within * float((self._weights * (1 - self._weights) / counts).sum())) / spare
        return within / between if between > 0.0 else np.inf

    def trust(self, lang: str) -> float:
        """How much of a language's estimate is its own, 0 to 1."""
        count = self._moments[lang].count
        if self._like:
            return self._like.trust(lang) if count else 0.0
        return count / (count + self._prior) if count else 0.0

    def mean(self, lang: str) -> FloatArray:
        """(dim,) of a language."""
        mean: FloatArray = (self._mean + self.trust(lang) * (self._moments[lang].mean - self._mean)).astype(np.float32)
        return mean

    def subspace(self, lang: str, rank: int) -> FloatArray:
        """(rank, dim) what a language's vectors share most, fewer rows where all vectors together span fewer."""
        if not rank:
            return np.zeros((0, self._dim), dtype=np.float32)
        one, mean = self._moments[lang], self.mean(lang).astype(np.float64)
        covariance = (_scatter(one) + _FULL * self._within) / (one.count + _FULL)
        return principal_axes(np.outer(mean, mean) + covariance)[:rank]

    @cached_property
    def _within(self) -> Float64Array:
        """(dim, dim) covariance within languages; zero where none has two vectors."""
        freedom = max(sum(one.count - 1 for one in self._seen), 1)
        return np.asarray(sum(map(_scatter, self._seen), np.zeros((self._dim, self._dim))) / freedom)

    @cached_property
    def _second(self) -> Float64Array:
        zero = np.zeros((self._dim, self._dim))
        return np.asarray(sum((w * one.second / one.count for w, one in self._weighted()), zero))

    def pooled(self, rank: int) -> Component:
        """What stands in for a language that is not here."""
        subspace = principal_axes(self._second)[:rank] if rank else np.zeros((0, self._dim), dtype=np.float32)
        return Component(self._mean.astype(np.float32), subspace)


class ShrunkParts:
    """Languages' moments of vectors made of parts, each part drawn towards its own."""

    def __init__(self, moments: Mapping[str, PartMoments], like: ShrunkParts | None = None) -> None:
        """Take the moments by language, one at least; ``like`` as ``Shrunk`` has it."""
        self._slices: list[slice] = next(iter(moments.values())).parts.slices
        self.parts: list[Shrunk] = [
            Shrunk({lang: one.moments[part] for lang, one in moments.items()}, like.parts[part] if like else None)
            for part in range(len(self._slices))
        ]

    def mean(self, lang: str) -> FloatArray:
        """(dim,) of a language."""
        return np.concatenate([one.mean(lang) for one in self.parts])

    def subspace(self, lang: str, rank: int) -> FloatArray:
        """(rank · parts, dim) what a language's vectors share most in each part."""
        return self._joined([one.subspace(lang, rank) for one in self.parts], rank)

    def pooled(self, rank: int) -> Component:
        """What stands in for a language that is not here."""
        pooled = [one.pooled(rank) for one in self.parts]
        mean = np.concatenate([one.mean for one in pooled])
        return Component(mean, self._joined([one.subspace for one in pooled], rank))

    def _joined(self, subspaces: Sequence[FloatArray], rank: int) -> FloatArray:
        """The parts' first directions, then their second: fewer of them are the first rows.

        Of a part that has fewer directions the rest are zeros.
        """
        if len(subspaces) == 1:
            return subspaces[0]
        joined = np.zeros((rank, len(subspaces), self._slices[-1].stop), dtype=np.float32)
        for part, (columns, subspace) in enumerate(zip(self._slices, subspaces, strict=True)):
            joined[: len(subspace), part, columns] = subspace
        return joined.reshape(rank * len(subspaces), self._slices[-1].stop)


def _scatter(moments: Moments) -> Float64Array:
    """(dim, dim) sum of the outer products of what is left of vectors without their mean."""
    return np.asarray(moments.second - np.outer(moments.total, moments.mean))
