"""What pseudo-queries find first, by one choice of ranking or another: a look at bias that needs no judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import unit_rows
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.evaluation.fairness import own_language_share
from query.ranking.choice import Choice
from query.ranking.fair_ranker import FairRanker

QUERIES = 128
"""Pseudo-queries over all languages, at most; of many languages a few more."""
_EACH = 4


@dataclass(frozen=True)
class FirstHits:
    """The languages of the first hits of some queries.

    Attributes:
        query_langs: (q,) of the queries.
        hit_langs: (q,) of each query's hits, best first.
    """

    query_langs: Sequence[str]
    hit_langs: Sequence[Sequence[str]]

    def own_language(self, depth: int) -> float:
        """Of the first hits, the share in the query's language; the mean over queries, 0 where there are none."""
        shares = [
            own_language_share(hits, lang, depth) for lang, hits in zip(self.query_langs, self.hit_langs, strict=True)
        ]
        return float(np.mean(shares)) if shares else 0.0


def first_hits(store: VectorStore, calibration: Calibration, choice: Choice, depth: int, *, seed: int = 0) -> FirstHits:
    """Rank a bounded number of the calibration's pseudo-queries; what one comes from is not among its hits.

    Args:
        store: holds the documents.
        calibration: has the pseudo-queries, encoded, and corrects.
        choice: how to rank; balance 0 is plain cosine.
        depth: hits a query.
        seed: of the draw.
    """
    counts = store.count()
    ranker, targets = FairRanker(store, calibration, choice, max(counts.values(), default=0)), sorted(counts)
    each = max(_EACH, QUERIES // max(len(calibration.languages), 1))
    chance = np.random.default_rng(seed)
    query_langs: list[str] = []
    hit_langs: list[list[str]] = []
    for lang, one in calibration.languages.items():
        rows = np.sort(chance.permutation(len(one.bank))[:each])
        if not len(rows):
            continue
        queries = unit_rows(one.bank[rows])
        for row, ranking in zip(rows, ranker.rank(queries, lang, targets, depth + 1), strict=True):
            found = zip(ranking.doc_ids, ranking.langs, strict=True)
            query_langs.append(lang)
            hit_langs.append([code for doc_id, code in found if doc_id != one.sources[row]][:depth])
    return FirstHits(query_langs, hit_langs)
