"""Shrinkage: the means of a language with few vectors are drawn towards those of all languages."""

from collections.abc import Mapping

import numpy as np

from encoders.document import Float64Array, FloatArray
from encoders.methods.moments import PartMoments

_FULL = 32
"""Number of vectors with which a language has half of its full weight in the pooled mean."""


class ShrunkMeans:
    """Languages' means, each shrunk towards that of all languages, part by part; fewer vectors shrink more.

    It is the empirical Bayes estimate: a language's mean has the weight n of its n vectors, the pooled mean the
    variance within languages over the variance between their means. Both are unbiased: the scatter within has degrees
    of freedom, the scatter between loses what few vectors cause. Without an estimate the pooled mean stands.
    """

    def __init__(self, moments: Mapping[str, PartMoments], like: "ShrunkMeans | None" = None) -> None:
        """Shrink the moments of each language, one at least; a count may be 0.

        The trust is that of ``like`` for passages: many passages of few documents say no more than the documents do.
        """
        languages = list(moments.values())
        parts = languages[0].parts
        counts = np.stack([language.counts for language in languages])
        spreads = np.stack([language.spreads for language in languages])
        means = np.stack([language.mean for language in languages])
        weights = counts / (counts + _FULL)
        weights /= np.maximum(weights.sum(axis=0), 1e-12)
        pooled = (np.repeat(weights, parts.widths, axis=1) * means).sum(axis=0)
        distances = np.add.reduceat((means - pooled) ** 2, [columns.start for columns in parts.slices], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            within = (counts * spreads).sum(axis=0) / np.maximum(counts - 1, 0).sum(axis=0)
            by_chance = within * (weights * (1 - weights) / np.maximum(counts, 1)).sum(axis=0)
            between = ((weights * distances).sum(axis=0) - by_chance) / (1 - (weights**2).sum(axis=0))
            own = counts / (counts + within / between)
        self.trust: Float64Array = np.where(counts > 0, like.trust if like else np.where(between > 0, own, 0), 0)
        shrunk = pooled + np.repeat(self.trust, parts.widths, axis=1) * (means - pooled)
        self.means: dict[str, FloatArray] = dict(zip(moments, shrunk.astype(np.float32), strict=True))
        self.pooled: FloatArray = pooled.astype(np.float32)  # (dim,) as each language's mean is
