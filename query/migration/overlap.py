"""Overlap of two rankings: the share of first ten hits in common, over logged queries or pseudo-queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import Document
from encoders.errors import BadInput
from indexer.collection.settings import Settings
from indexer.stores.contract import VectorStore, read_existing
from query.fitting.sampling import draw
from query.fitting.statistics import pseudo_queries
from query.query_log.judged_queries import logged_queries
from query.ranking.searcher import Searcher

_QUERIES = 100
_HITS = 10


@dataclass(frozen=True)
class ComparedQueries:
    """Queries that two searchers are compared on: ``logged``, or else documents' titles and first sentences."""

    queries: Sequence[Document]
    logged: bool

    @classmethod
    def on(cls, name: str, store: VectorStore, model: str, settings: Settings) -> ComparedQueries:
        """Queries of a collection's log; without a log, pseudo-queries of documents that have vectors of a model."""
        try:
            logged = logged_queries(name, settings)
        except BadInput:
            doc_ids = [doc_id for ids in draw(store, model, _QUERIES, seed=1).values() for doc_id in ids]
            return cls(pseudo_queries(list(read_existing(store.get, doc_ids).values())), False)
        return cls([logged[row] for row in np.random.default_rng(0).permutation(len(logged))[:_QUERIES]], True)

    def first(self, searcher: Searcher) -> list[set[str]]:
        """Ids of each query's first ten hits."""
        return [set(ranking.doc_ids) for ranking in searcher.rank(self.queries, k=_HITS)]


def overlap(before: Sequence[set[str]], after: Sequence[set[str]]) -> float:
    """Mean over queries of the share of hits before that are also hits after; 0 without queries."""
    shares = [len(old & new) / max(len(old), 1) for old, new in zip(before, after, strict=True)]
    return float(np.mean(shares or [0.0]))
