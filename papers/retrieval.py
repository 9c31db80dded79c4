"""Ranks of texts' equivalents among candidates, by cosine and by CSLS, as for word vectors."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from query.calibration.margin import neighbourhood

RankedBy = Literal["cosine", "csls"]
RANKED_BY: Sequence[RankedBy] = get_args(RankedBy)
RANKS = (1, 5, 10)
_NEIGHBOURS = 10
_BLOCK = 256


def equivalents_ranks(
    queries: FloatArray,
    candidates: FloatArray,
    equivalents: Sequence[AbstractSet[int]],
    source: FloatArray | None = None,
) -> Mapping[RankedBy, list[float]]:
    """Rank of each query's nearest equivalent among all candidates, from 1; infinite if it has none.

    Queries (q, dim), candidates (c, dim) and source (n, dim) are unit rows; ``equivalents`` are rows of candidates by
    query. CSLS (Conneau et al. 2017) takes the ten neighbours of candidates from ``source``, by default the queries.
    """
    source = queries if source is None else source
    neighbours = min(_NEIGHBOURS, len(source))
    hubs = np.concatenate([neighbourhood(block @ source.T, neighbours) for block in _blocks(candidates)])
    ranks: dict[RankedBy, list[float]] = {"cosine": [], "csls": []}
    remaining = iter(equivalents)
    for block in _blocks(queries):
        cosines = block @ candidates.T
        rows = list(islice(remaining, len(block)))
        ranks["cosine"] += _ranks(cosines, rows)
        ranks["csls"] += _ranks(2 * cosines - hubs, rows)  # a query's own neighbourhood is the same for its candidates
    return ranks


def precision(ranks: Sequence[float]) -> list[float]:
    """Share of the queries, in per cent, whose equivalent is among the first k candidates (P@k), for k of ``RANKS``."""
    return [100 * (sum(rank <= k for rank in ranks) / max(len(ranks), 1)) for k in RANKS]


def _blocks(rows: FloatArray) -> Iterator[FloatArray]:
    return (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))


def _ranks(scores: npt.NDArray[np.float32], equivalents: Sequence[AbstractSet[int]]) -> list[float]:
    ranks = []
    for row_scores, rows in zip(scores, map(list, equivalents), strict=True):
        wrong = np.delete(row_scores, rows)
        ranks.append(1.0 + float((wrong >= row_scores[rows].max()).sum()) if rows else np.inf)
    return ranks
