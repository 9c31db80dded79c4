"""Languages of the first hits of pseudo-queries: shows bias without judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import unit_rows
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.measures.fairness import own_language_share
from query.ranking.fair_ranker import FairRanker

QUERIES = 128
"""Most pseudo-queries over all languages, except that every language has at least ``_EACH``."""
_EACH = 4


@dataclass(frozen=True)
class FirstHits:
    """Languages of q queries and of their first hits.

    Attributes:
        query_langs: (q,) language of each query.
        hit_langs: (q,) languages of each query's hits, best first.
    """

    query_langs: Sequence[str]
    hit_langs: Sequence[Sequence[str]]

    def own_language(self, depth: int) -> float:
        """Share of the first hits in the query's language, 0 to 1: the mean over queries, 0 without queries."""
        shares = [
            own_language_share(hits, lang, depth) for lang, hits in zip(self.query_langs, self.hit_langs, strict=True)
        ]
        return float(np.mean(shares)) if shares else 0.0


def first_hits(store: VectorStore, calibration: Calibration, balance: float, depth: int) -> FirstHits:
    """First ``depth`` hits of a sample of the calibration's pseudo-queries, each without the document it comes from.

    Documents are ranked by their vectors alone. Balance 0 without mates is plain cosine.
    """
    ranker, targets = FairRanker(store, calibration, balance, passages=False), sorted(store.count())
    queries_per_language = max(_EACH, QUERIES // max(len(calibration.languages), 1))
    generator = np.random.default_rng(0)
    query_langs: list[str] = []
    hit_langs: list[list[str]] = []
    for lang, language in calibration.languages.items():
        rows = np.sort(generator.permutation(len(language.bank))[:queries_per_language])
        if not len(rows):
            continue
        queries = unit_rows(language.bank[rows])
        for row, ranking in zip(rows, ranker.rank(queries, lang, targets, depth + 1), strict=True):
            hits = zip(ranking.doc_ids, ranking.langs, strict=True)
            query_langs.append(lang)
            hit_langs.append([code for doc_id, code in hits if doc_id != language.sources[row]][:depth])
    return FirstHits(query_langs, hit_langs)
