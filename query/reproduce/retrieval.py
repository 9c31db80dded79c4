"""Find a text's equivalent among candidates: precision at k by cosine and by CSLS, as papers on word vectors do."""

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
        cosine: by k.
        csls: by k, with each side's ten nearest of the other taken into account (Conneau et al. 2017).
        queries: how many were asked.
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
    """Rank all candidates for each query; a query finds its equivalent at the place of the nearest right one.

    Args:
        queries: (q, dim) unit rows.
        candidates: (c, dim) unit rows.
        equivalents: rows of the right candidates, by query; a query without any counts as not found.
        source: (n, dim) unit rows of the queries' side, whose nearness makes hubs; the queries unless given.
        ranks: of which the precision is wanted.
    """
    source = queries if source is None else source
    hubs = np.concatenate([_mean_nearest(candidates[at : at + _BLOCK], source) for at in _starts(candidates)])
    by_cosine, by_csls = [], []
    for at in _starts(queries):
        cosines = queries[at : at + _BLOCK] @ candidates.T
        csls = 2 * cosines - hubs  # the query's own neighbourhood is the same for all of its candidates
        right = equivalents[at : at + _BLOCK]
        by_cosine += _places(cosines, right)
        by_csls += _places(csls, right)
    return Precision(_shares(by_cosine, ranks), _shares(by_csls, ranks), len(queries))


def _shares(places: Sequence[float], ranks: Sequence[int]) -> dict[int, float]:
    return {k: sum(place <= k for place in places) / max(len(places), 1) for k in ranks}


def _starts(rows: FloatArray) -> range:
    return range(0, len(rows), _BLOCK)


def _mean_nearest(rows: FloatArray, others: FloatArray) -> FloatArray:
    return neighbourhood(rows @ others.T, min(_NEIGHBOURS, len(others)))


def _places(scores: npt.NDArray[np.float32], right: Sequence[AbstractSet[int]]) -> list[float]:
    places = []
    for row, rows in zip(scores, right, strict=True):
        if not rows:
            places.append(np.inf)
            continue
        best = row[list(rows)].max()
        others = np.delete(row, list(rows))
        places.append(1.0 + float((others >= best).sum()))
    return places
