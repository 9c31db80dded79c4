"""Rerank the best hits of a fair ranking: a cross-encoder reads the query with the best passage of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from encoders.document import Document, FloatArray, short_hash
from encoders.reranker import Reranker
from query.ranking.hits import RERANKED, Hit
from query.ranking.language_effects import LanguageEffects


@dataclass
class HitReranker:
    """A reranker with its language effects in a collection.

    Attributes:
        effects: how much the reranker favours each language; none: its scores are taken as they are.
        seconds: time that reranking has taken so far.
    """

    reranker: Reranker
    effects: LanguageEffects | None = None
    seconds: float = field(default=0.0, init=False)

    @property
    def name(self) -> str:
        """Name of the reranker's folder."""
        return self.reranker.folder.config.name

    @property
    def build(self) -> str:
        """Id of the reranker's graph."""
        return self.reranker.folder.config.build_id

    def describe(self) -> dict[str, Any]:
        """What decides the order of the reranked hits, for the evaluation log."""
        effects = self.effects and short_hash(json.dumps(self.effects.as_json(), sort_keys=True))
        return {"reranker": self.name, "reranker_build": self.build, "reranker_effects": effects, "reranked": RERANKED}

    def scores(self, query: Document, hits: Sequence[Hit], share: float) -> FloatArray:
        """(hits,) scores of hits, without a share (0 to 1) of the language effects."""
        scores = self.reranker.scores([(query.content, read_text(hit)) for hit in hits])
        if self.effects is None or not share:
            return scores
        return scores - share * self.effects.of(query.lang, [hit.lang for hit in hits])


def read_text(hit: Hit) -> str:
    """The text of a hit that a reranker reads: title and best passage, or the beginning without a passage."""
    if hit.passage is None:
        return hit.document.content
    return f"{hit.document.title}\n{hit.passage.text}" if hit.document.title else hit.passage.text
