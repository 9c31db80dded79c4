"""How much a reranker favours each language of documents, measured against the fair ranking.

Within one query, the reranker's score s of a hit is taken to be

    s = a + c · f + b(language) + o · [the hit is in the query's language] + noise

where f is the hit's score in the fair ranking, which compares languages by the calibration. What b and o add is a
matter of the language and of nothing that the fair ranking sees, so it is taken out again. a belongs to the query, c to
all queries; both stay. Least squares over the hits of many pseudo-queries, b and o with a ridge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from encoders.document import FloatArray

RIDGE = 10.0
"""Hits without any effect that are added to each language's: a language with few hits has a small effect."""


@dataclass(frozen=True)
class Pool:
    """The hits of one pseudo-query.

    Attributes:
        lang: language of the query.
        langs: (n,) languages of the hits.
        fair: (n,) their scores in the fair ranking.
        scores: (n,) their scores by the reranker.
    """

    lang: str
    langs: Sequence[str]
    fair: FloatArray
    scores: FloatArray


@dataclass(frozen=True)
class LanguageEffects:
    """What a reranker's scores owe to languages, in units of its scores.

    Attributes:
        by_language: by language of documents; a language that is not there has none.
        own: for documents in the query's language, added to that of their language.
    """

    by_language: Mapping[str, float]
    own: float

    @classmethod
    def fitted(cls, pools: Sequence[Pool]) -> Self:
        """Fit the effects to the hits of pseudo-queries, by ridge regression within the pools."""
        languages = sorted({lang for pool in pools for lang in pool.langs})
        column = {lang: number for number, lang in enumerate(languages)}
        width = len(languages) + 2
        products, targets = np.diag([RIDGE] * (width - 1) + [1e-9]), np.zeros(width)
        for pool in pools:
            rows = np.zeros((len(pool.langs), width))
            rows[np.arange(len(rows)), [column[lang] for lang in pool.langs]] = 1
            rows[:, -2] = [lang == pool.lang for lang in pool.langs]
            rows[:, -1] = pool.fair
            rows -= rows.mean(axis=0, keepdims=True)
            products += rows.T @ rows
            targets += rows.T @ (pool.scores - pool.scores.mean(dtype=np.float64))
        solution = np.linalg.solve(products, targets).tolist()
        return cls(dict(zip(languages, solution, strict=False)), solution[-2])

    def of(self, lang: str, langs: Sequence[str]) -> FloatArray:
        """(n,) effects on documents in some languages, for a query in a language."""
        return np.array(
            [self.by_language.get(of_hit, 0.0) + (self.own if of_hit == lang else 0.0) for of_hit in langs],
            dtype=np.float32,
        )

    def as_json(self) -> dict[str, Any]:
        """The effects as the database has them."""
        return asdict(self)
