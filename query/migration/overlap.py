"""How much two ways of searching have in common: the first ten of queries that were asked, or might be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import Document
from encoders.errors import BadInput
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from query.fitting.sampling import drawn
from query.fitting.statistics import pseudo_queries
from query.query_log.judged_queries import logged_queries
from query.ranking.searcher import Searcher

_QUERIES = 100
_HITS = 10


@dataclass(frozen=True)
class ComparedQueries:
    """Queries that two ways of searching are compared on.

    Attributes:
        queries: the same for both.
        logged: whether they were really asked, or else are documents' titles and first sentences.
    """

    queries: Sequence[Document]
    logged: bool

    @classmethod
    def on(cls, name: str, store: VectorStore, model: str, settings: Settings) -> ComparedQueries:
        """Queries of a collection's log, or else of its documents that have vectors of a model."""
        try:
            asked = logged_queries(name, settings)
        except BadInput:
            doc_ids = [doc_id for some in drawn(store, model, _QUERIES, seed=1).values() for doc_id in some]
            return cls(pseudo_queries(store.get(doc_ids)), False)
        return cls([asked[at] for at in np.random.default_rng(0).permutation(len(asked))[:_QUERIES]], True)

    def first(self, searcher: Searcher) -> list[set[str]]:
        """Ids of each query's first ten."""
        return [set(ranking.doc_ids) for ranking in searcher.rank(self.queries, k=_HITS)]


def overlap(before: Sequence[set[str]], after: Sequence[set[str]]) -> float:
    """Share of what was found before that is found after, the mean over queries; 0 of none."""
    shares = [len(one & other) / max(len(one), 1) for one, other in zip(before, after, strict=True)]
    return float(np.mean(shares or [0.0]))
