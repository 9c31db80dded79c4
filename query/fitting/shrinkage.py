"""Shrinkage: the estimates of a language with few vectors are drawn towards those of all languages."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from encoders.document import FloatArray
from encoders.methods.moments import Moments, PartMoments

_FULL = 32
"""Number of vectors with which a language has half of its full weight in the pooled mean."""


class Shrunk:
    """Languages' moments, each shrunk towards those of all languages; fewer vectors shrink more.

    The mean is the empirical Bayes estimate: a language's mean has the weight n of its n vectors, the pooled mean the
    variance within languages over the variance between their means. Both variances are unbiased: the scatter around a
    language's mean is divided by the degrees of freedom, and the scatter of means that few vectors cause is subtracted
    from the variance between languages. If the variances can't be estimated, each language has the pooled mean.
    """

    def __init__(self, moments: Mapping[str, Moments], like: Shrunk | None = None) -> None:
        """Shrink the moments of each language; at least one language is needed, and its count may be 0.

        The trust is that of ``like`` if vectors are not drawn one by one: a document's passages come together, so many
        passages of few documents say no more than the documents do.
        """
        self._moments, self._like = moments, like
        seen = [language for language in moments.values() if language.count]
        counts = np.array([language.count for language in seen], dtype=np.float64)
        trust = counts / (counts + _FULL)
        weights = trust / max(float(trust.sum()), 1e-12)
        weighted = list(zip(weights.tolist(), seen, strict=True))
        dim = next(iter(moments.values())).dim
        self._mean = sum((weight * language.mean for weight, language in weighted), np.zeros(dim))
        self._prior = np.inf
        """Variance within languages over the variance between their means; infinite if there is none between."""
        freedom, correction = float((counts - 1).sum()), 1.0 - float((weights**2).sum())
        if freedom and correction > 0.0:
            within = sum(language.count * language.spread for language in seen) / freedom
            scatter = sum(weight * float(((language.mean - self._mean) ** 2).sum()) for weight, language in weighted)
            between = (scatter - within * float((weights * (1 - weights) / counts).sum())) / correction
            self._prior = within / between if between > 0.0 else np.inf

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

    @property
    def pooled(self) -> FloatArray:
        """(dim,) mean of all languages, for a language without moments."""
        return self._mean.astype(np.float32)


class ShrunkParts:
    """Languages' moments of vectors made of parts; each part is shrunk by itself."""

    def __init__(self, moments: Mapping[str, PartMoments], like: ShrunkParts | None = None) -> None:
        """Shrink the moments of each language; ``like`` as for ``Shrunk``."""
        count = len(next(iter(moments.values())).parts.widths)
        self.parts: list[Shrunk] = [
            Shrunk(
                {lang: language.moments[part] for lang, language in moments.items()}, like.parts[part] if like else None
            )
            for part in range(count)
        ]

    def mean(self, lang: str) -> FloatArray:
        """(dim,) a language's shrunk mean."""
        return np.concatenate([part.mean(lang) for part in self.parts])

    @property
    def pooled(self) -> FloatArray:
        """(dim,) mean of all languages, for a language without moments."""
        return np.concatenate([part.pooled for part in self.parts])
