"""Precision at k of finding a text's equivalent among candidates, by cosine and by CSLS, as for word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from query.calibration.margin import neighbourhood

RANKS = (1, 5, 10)
_NEIGHBOURS = 10
_BLOCK = 256


@dataclass(frozen=True)
class Precision:
    """Share of the queries whose equivalent is among the first k candidates (P@k).

    Attributes:
        cosine: share by k, candidates ranked by cosine.
        csls: share by k, candidates ranked by CSLS with ten neighbours on either side (Conneau et al. 2017).
        queries: number of queries.
    """

    cosine: dict[int, float]
    csls: dict[int, float]
    queries: int


def precision(
    queries: FloatArray,
    candidates: FloatArray,
    equivalents: Sequence[AbstractSet[int]],
    *,
    source: FloatArray | None = None,
    ranks: Sequence[int] = RANKS,
) -> Precision:
    """Rank all candidates for each query; the rank that counts is that of the nearest equivalent.

    Args:
        queries: (q, dim) unit rows.
        candidates: (c, dim) unit rows.
        equivalents: rows of the equivalent candidates by query; a query without equivalents counts as not found.
        source: (n, dim) unit rows of the queries' side, from which CSLS takes the candidates' neighbours; by default
            the queries.
        ranks: the values of k.
    """
    source = queries if source is None else source
    hubs = np.concatenate([_mean_nearest(candidates[start : start + _BLOCK], source) for start in _starts(candidates)])
    by_cosine, by_csls = [], []
    for start in _starts(queries):
        cosines = queries[start : start + _BLOCK] @ candidates.T
        csls = 2 * cosines - hubs  # the query's own neighbourhood is the same for all of its candidates
        block_equivalents = equivalents[start : start + _BLOCK]
        by_cosine += _places(cosines, block_equivalents)
        by_csls += _places(csls, block_equivalents)
    return Precision(_shares(by_cosine, ranks), _shares(by_csls, ranks), len(queries))


def _shares(places: Sequence[float], ranks: Sequence[int]) -> dict[int, float]:
    return {k: sum(place <= k for place in places) / max(len(places), 1) for k in ranks}


def _starts(rows: FloatArray) -> range:
    return range(0, len(rows), _BLOCK)


def _mean_nearest(rows: FloatArray, other_rows: FloatArray) -> FloatArray:
    return neighbourhood(rows @ other_rows.T, min(_NEIGHBOURS, len(other_rows)))


def _places(scores: npt.NDArray[np.float32], equivalents: Sequence[AbstractSet[int]]) -> list[float]:
    places = []
    for row_scores, rows in zip(scores, equivalents, strict=True):
        if not rows:
            places.append(np.inf)
            continue
        best = row_scores[list(rows)].max()
        wrong = np.delete(row_scores, list(rows))
        places.append(1.0 + float((wrong >= best).sum()))
    return places
