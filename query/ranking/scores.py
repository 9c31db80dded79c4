"""Scores of candidates by queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from encoders.document import BoolArray, FloatArray
from encoders.largest import largest
from indexer.stores.contract import LexicalHits
from indexer.stores.matrix import Rows
from query.ranking.candidates import CandidateDocuments, CandidatesWithPassages, CosinesByPart
from query.ranking.fusion import best_lexical_score, lexical_scores
from query.ranking.hits import ScoreParts
from query.ranking.mates import Mates

_SMALLEST_BM25 = 1e-9


@dataclass(frozen=True)
class ScoredCandidates:
    """Candidates compared with queries.

    Attributes:
        cosines: (queries, n) cosines that the margin is taken of.
        fwd: (queries, n) mean of the query's k largest cosines in the document's language; none without a margin.
        bwd: (n,) mean of the document's k largest cosines with the bank's pseudo-queries; none without a margin.
        scores: (queries, n) scores to rank by; −∞ if a document is not a candidate of the query.
        margins: (queries, n) scores before mates took part; none if mates don't count.
        mates: each query's mates; empty if mates don't count.
    """

    documents: CandidateDocuments
    cosines: FloatArray
    fwd: FloatArray | None
    bwd: FloatArray | None
    scores: FloatArray
    margins: FloatArray | None = None
    mates: Sequence[Mates] = ()

    def with_mates(self, mates: Sequence[Mates]) -> ScoredCandidates:
        """The same candidates, in whose scores each query's mates take part."""
        if not mates:
            return self
        scores = np.stack([of_query.added(row) for of_query, row in zip(mates, self.scores, strict=True)])
        return replace(self, scores=scores, margins=self.scores, mates=mates)

    def best(self, query: int, k: int, among: BoolArray) -> tuple[Rows, FloatArray]:
        """Rows and scores of a query's k best documents ``among`` (n,), best first; ties keep the documents' order."""
        scores = np.where(among, self.scores[query], np.float32(-np.inf))
        order = largest(scores, k)
        candidates: Rows = order[np.isfinite(scores[order])]
        return candidates, scores[candidates]

    def stretch(
        self, query: int, k: int, among: BoolArray, lexical_hits: LexicalHits | None
    ) -> tuple[Rows, FloatArray]:
        """The same as ``best``; with lexical hits, reordered by ``CandidateDocuments.fused``."""
        if lexical_hits is None:
            return self.best(query, k, among)
        rows, scores = self.best(query, len(among), among)
        return self.documents.fused(rows, scores, lexical_hits)[:k], scores[:k]

    def parts_of_scores(
        self, query: int, rows: Rows, raw: FloatArray, by_part: CosinesByPart, lexical_hits: LexicalHits | None
    ) -> list[ScoreParts]:
        """The parts of the scores of the rows' documents, for a query vector as encoded (``raw``).

        ``by_part`` are the (rows,) cosines with the query as corrected.
        """
        documents = self.documents
        margins = self.scores[query] if self.margins is None else self.margins[query]
        gains = self.mates[query].gains(margins) if self.mates else {}
        with_passages = documents if isinstance(documents, CandidatesWithPassages) else None
        lexical = None
        if lexical_hits is not None:
            lexical = lexical_scores(documents.doc_ids, lexical_hits) / max(
                best_lexical_score(lexical_hits), _SMALLEST_BM25
            )
        return [
            ScoreParts(
                cosine=float(documents.vector_parts.plain_cosines(documents.raw[row : row + 1], raw[None])[0, 0]),
                corrected=float(by_part.document[number]),
                title=float(by_part.title[number]) if with_passages and with_passages.has_title[row] else None,
                opening=float(by_part.opening[number]) if with_passages else None,
                passage=float(by_part.passage[number]) if with_passages else None,
                compared=float(self.cosines[query, row]),
                fwd=float(self.fwd[query, row]) if self.fwd is not None else None,
                bwd=float(self.bwd[row]) if self.bwd is not None else None,
                score=float(margins[row]),
                mate=documents.doc_ids[gains[row].mate] if row in gains else None,
                mates=gains[row].gain if row in gains else None,
                words=float(lexical[row]) if lexical is not None else None,
            )
            for number, row in enumerate(rows.tolist())
        ]
