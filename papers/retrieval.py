"""Precision at k of finding a text's equivalent among candidates, by cosine and by CSLS, as for word vectors."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from query.calibration.margin import neighbourhood

RANKS = (1, 5, 10)
_NEIGHBOURS = 10
_BLOCK = 256


@dataclass(frozen=True)
class Precision:
    """Share of the queries whose equivalent is among the first k candidates (P@k), by k of ``RANKS``.

    Candidates are ranked by cosine, and by CSLS with ten neighbours on either side (Conneau et al. 2017).
    """

    cosine: dict[int, float]
    csls: dict[int, float]
    queries: int
    # rank of each query's nearest equivalent by cosine, from 1; infinite if it has none
    cosine_ranks: Sequence[float] = ()
    csls_ranks: Sequence[float] = ()  # the same by CSLS


def precision(
    queries: FloatArray,
    candidates: FloatArray,
    equivalents: Sequence[AbstractSet[int]],
    source: FloatArray | None = None,
) -> Precision:
    """Rank all candidates for each query; the rank that counts is that of the nearest equivalent.

    Queries (q, dim), candidates (c, dim) and source (n, dim) are unit rows; ``equivalents`` are rows of candidates by
    query, and a query without any counts as not found. CSLS takes the candidates' neighbours from ``source``, the
    queries' side; by default the queries.
    """
    source = queries if source is None else source
    neighbours = min(_NEIGHBOURS, len(source))
    hubs = np.concatenate([neighbourhood(block @ source.T, neighbours) for block in _blocks(candidates)])
    by_cosine, by_csls = [], []
    remaining = iter(equivalents)
    for block in _blocks(queries):
        cosines = block @ candidates.T
        rows = list(islice(remaining, len(block)))
        by_cosine += _places(cosines, rows)
        by_csls += _places(2 * cosines - hubs, rows)  # the query's own neighbourhood is the same for its candidates
    return Precision(_shares(by_cosine), _shares(by_csls), len(queries), by_cosine, by_csls)


def _blocks(rows: FloatArray) -> Iterator[FloatArray]:
    return (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))


def _shares(ranks: Sequence[float]) -> dict[int, float]:
    return {k: sum(rank <= k for rank in ranks) / max(len(ranks), 1) for k in RANKS}


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
