"""Rerank the best hits of a fair ranking: a cross-encoder reads the query with the best passage of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from encoders.document import Document, FloatArray
from encoders.inference.cross_encoder import Reranker
from query.ranking.search_hits import RERANKED, Hit


@dataclass
class HitReranker:
    """A reranker of a collection's hits.

    Attributes:
        seconds: time that reranking has taken so far.
    """

    reranker: Reranker
    seconds: float = field(default=0.0, init=False)

    @property
    def name(self) -> str:
        """Name of the reranker's folder."""
        return self.reranker.folder.config.name

    def describe(self) -> dict[str, Any]:
        """What decides the order of the reranked hits, for the evaluation log."""
        return {"reranker": self.name, "reranker_build": self.reranker.folder.config.build_id, "reranked": RERANKED}

    def scores(self, query: Document, hits: Sequence[Hit]) -> FloatArray:
        """(hits,) scores of hits."""
        return self.reranker.scores([(query.content, read_text(hit)) for hit in hits])


def read_text(hit: Hit) -> str:
    """The text of a hit that a reranker reads: title and best passage, or the beginning without a passage."""
    if hit.passage is None:
        return hit.document.content
    return f"{hit.document.title}\n{hit.passage.text}" if hit.document.title else hit.passage.text
