"""Mate retrieval: at which rank does a document find its translation? (Tashu et al. 2024, section 4.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Self

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from encoders.maps.parallel import Parallel

Comparer = Callable[[str, str, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""From the languages of queries and documents, and the (n, dim) rows of both: rows whose cosines compare them."""
Ranks = npt.NDArray[np.intp]
_BLOCK = 1024


@dataclass(frozen=True)
class MateScores:
    """Share of documents whose mate is the nearest, and mean reciprocal rank of mates."""

    rate: float
    mrr: float

    @classmethod
    def of(cls, mate_ranks: Ranks) -> Self:
        """The scores of (n,) ranks of mates, from 1."""
        return cls(float((mate_ranks == 1).mean()), float((1.0 / mate_ranks).mean()))


def mates(queries: FloatArray, documents: FloatArray) -> MateScores:
    """How well (n, dim) queries retrieve mates, the same rows, by cosine (eqs. 1 to 4); a mate is last among ties."""
    return MateScores.of(ranks(queries, documents))


def ranks(queries: FloatArray, documents: FloatArray) -> Ranks:
    """Rank of each query's mate among all documents, from 1."""
    unit_queries, unit_documents = unit_rows(queries), unit_rows(documents)
    blocks = [np.zeros(0, dtype=np.intp)]
    for start in range(0, len(unit_queries), _BLOCK):
        cosines = unit_queries[start : start + _BLOCK] @ unit_documents.T
        mate_cosines = cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))]
        blocks.append((cosines >= mate_cosines[:, None]).sum(axis=1))
    return np.concatenate(blocks)


def centred(means: Mapping[str, FloatArray]) -> Comparer:
    """A comparer that subtracts each language's mean, (dim,)."""
    return lambda lang, other, queries, documents: (queries - means[lang], documents - means[other])


def ranks_by_pair(comparer: Comparer, parallel: Parallel) -> dict[tuple[str, str], Ranks]:
    """Ranks of the concepts' mates for every ordered pair of languages (of queries, of documents)."""
    rows = parallel.rows
    return {pair: ranks(*comparer(*pair, rows[pair[0]], rows[pair[1]])) for pair in permutations(rows, 2)}


def over_pairs(comparer: Comparer, parallel: Parallel) -> MateScores:
    """Mate retrieval as the mean over all ordered pairs of languages."""
    return mean_mates([MateScores.of(mate_ranks) for mate_ranks in ranks_by_pair(comparer, parallel).values()])


def mean_mates(scores: Sequence[MateScores]) -> MateScores:
    """Mean of both measures."""
    return MateScores(float(np.mean([score.rate for score in scores])), float(np.mean([score.mrr for score in scores])))
