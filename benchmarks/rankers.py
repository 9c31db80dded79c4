"""Rankings of a collection that benchmarks compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from encoders.document import Document, FloatArray
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import PLAIN_SPACE
from query.ranking.fair_ranker import FairRanker
from query.ranking.search_hits import Ranking

_BLOCK = 64


def rankers(store: VectorStore, calibration: Calibration) -> dict[str, FairRanker]:
    """By documents' vectors alone, plain and without the languages' means; with passages, too; as calibrated."""
    plain = Calibration.none(calibration.model, calibration.vector_parts)
    without_mates = replace(calibration, mates=False)
    return {
        "plain cosine": FairRanker(store, plain, passages=False),
        "centred": FairRanker(store, replace(without_mates, space=PLAIN_SPACE), 0.5, passages=False),
        "without mates": FairRanker(store, without_mates),
        "calibrated": FairRanker(store, calibration),
    }


def rank(
    ranker: FairRanker, queries: Sequence[Document], vectors: FloatArray, langs: Sequence[str], k: int = 1000
) -> list[Ranking]:
    """The k best documents of the languages for each query, by the queries' (n, dim) vectors; none if that is zero."""
    rankings = [Ranking([], [], vectors[:0, 0])] * len(queries)
    known = ranker.calibration.vector_parts.comparable(vectors)
    for lang in sorted({query.lang for query in queries}):
        rows = [row for row, query in enumerate(queries) if query.lang == lang and known[row]]
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            for row, ranking in zip(block, ranker.rank(vectors[block], lang, langs, k), strict=True):
                rankings[row] = ranking
    return rankings
