"""Rerank the best hits of a fair ranking: a cross-encoder reads the query with the best passage of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.document import Document, FloatArray
from encoders.inference.cross_encoder import Reranker
from indexer.stores.contract import MissingDocuments
from query.ranking.search_hits import RERANKED, Hit, Ranking

if TYPE_CHECKING:
    from query.ranking.fair_ranker import FairRanker


@dataclass
class HitReranker:
    """A reranker of a collection's hits."""

    reranker: Reranker
    seconds: float = field(default=0.0, init=False)  # time that reranking has taken so far

    @property
    def name(self) -> str:
        """Name of the reranker's folder."""
        return self.reranker.folder.config.name

    def describe(self) -> dict[str, Any]:
        """What decides the order of the reranked hits, for the evaluation log."""
        return {"reranker": self.name, "reranker_build": self.reranker.folder.config.build_id, "reranked": RERANKED}

    def reranked(
        self, ranking: Ranking, query: Document, ranker: "FairRanker", hits_of: Callable[[Ranking], Sequence[Hit]]
    ) -> tuple[Ranking, float]:
        """The ranking in the reranker's order, without deleted documents, and its seconds; places keep scores."""
        start = perf_counter()
        best = ranking.first(RERANKED)
        try:
            scores = ranker.with_mates(best, self.scores(query, hits_of(best)), query.lang)
        except MissingDocuments as missing:
            existing = [row for row, doc_id in enumerate(ranking.doc_ids) if doc_id not in missing.doc_ids]
            return self.reranked(ranking.ordered(existing), query, ranker, hits_of)
        order = [*np.argsort(-scores, kind="stable").tolist(), *range(len(scores), len(ranking.doc_ids))]
        taken = perf_counter() - start
        self.seconds += taken
        return replace(ranking, reranked=dict(zip(best.doc_ids, scores.tolist(), strict=True))).ordered(order), taken

    def scores(self, query: Document, hits: Sequence[Hit]) -> FloatArray:
        """(hits,) scores of hits."""
        return self.reranker.scores([(query.content, read_text(hit)) for hit in hits])


def read_text(hit: Hit) -> str:
    """The text of a hit that a reranker reads: title and best passage, or the beginning without a passage."""
    if hit.passage is None:
        return hit.document.content
    return f"{hit.document.title}\n{hit.passage.text}" if hit.document.title else hit.passage.text
