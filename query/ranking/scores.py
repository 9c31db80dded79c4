"""Scores of candidates by queries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from encoders.document import BoolArray, FloatArray, Rows
from encoders.top_scores import largest
from indexer.stores.contract import LexicalHits
from query.calibration.margin import best_of_languages
from query.ranking.candidate_mates import Mates
from query.ranking.candidates import CandidateDocuments, CosinesByPart
from query.ranking.fusion import best_lexical_score, lexical_scores
from query.ranking.search_hits import ScoreParts


@dataclass(frozen=True)
class ScoredCandidates:
    """Candidates compared with queries."""

    documents: CandidateDocuments
    by_part: CosinesByPart  # (n, queries) cosines of the documents' parts, with the queries as corrected
    cosines: FloatArray  # (queries, n) their means, which the margin is taken of
    fwd: FloatArray | None  # (queries, n) mean of the query's k largest cosines in the language; none without a margin
    bwd: FloatArray | None  # (n,) mean of the document's k largest cosines with the bank; none without a margin
    scores: FloatArray  # (queries, n) scores to rank by; −∞ if a document is not a candidate of the query
    margins: FloatArray | None = None  # (queries, n) scores before mates took part; none if mates don't count
    mates: Sequence[Mates] = ()  # each query's mates; empty if mates don't count

    def selected(self, rows: Rows) -> "ScoredCandidates":
        """The candidates of the rows, ascending, compared by their own vectors and not with the bank."""
        return ScoredCandidates(
            self.documents.selected(rows),
            CosinesByPart(self.by_part.document[rows]),
            self.cosines[:, rows],
            None if self.fwd is None else self.fwd[:, rows],
            None,
            self.scores[:, rows],
        )

    def with_mates(self, mates: Sequence[Mates]) -> "ScoredCandidates":
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

    def best_of_queries(self, k: int, among: BoolArray) -> list[int]:
        """Rows of the k best documents ``among`` (queries, n) of each query."""
        return [row for query, of_query in enumerate(among) for row in self.best(query, k, of_query)[0].tolist()]

    def ranking(
        self, query: int, in_stretches: Sequence[BoolArray], ends: Sequence[int], lexical_hits: LexicalHits | None
    ) -> tuple[Rows, FloatArray]:
        """Rows and scores of a query's ranking; a stretch is lowered below the one before, and fused with words."""
        rows, scores = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.float32)
        for in_stretch, end in zip(in_stretches, ends, strict=True):
            unranked = in_stretch.copy()
            unranked[rows] = False
            count = end - len(rows)
            next_rows, next_scores = self.best(query, count if lexical_hits is None else len(unranked), unranked)
            if lexical_hits is not None:
                next_rows = self.documents.fused(next_rows, next_scores, lexical_hits)
            next_rows, next_scores = next_rows[:count], next_scores[:count]
            if len(rows) and len(next_rows):
                next_scores = np.minimum(next_scores - max(np.float32(0), next_scores[0] - scores[-1]), scores[-1])
            rows, scores = np.concatenate((rows, next_rows)), np.concatenate((scores, next_scores))
        return rows, scores

    def parts(self, query: int, rows: Rows, raw: FloatArray, lexical_hits: LexicalHits | None) -> list[ScoreParts]:
        """The parts of the scores of the rows' documents, for a query vector in the stored space (``raw``)."""
        documents, none = self.documents, [None] * len(rows)
        margins = self.scores[query] if self.margins is None else self.margins[query]
        gains, mates = np.zeros(len(margins), dtype=np.float32), np.full(len(margins), -1)
        if self.mates:
            of_query = self.mates[query]
            gains[of_query.rows], mates[of_query.rows] = of_query.gains(margins)
        words = none
        if lexical_hits is not None:
            best = max(best_lexical_score(lexical_hits), 1e-9)
            words = (lexical_scores([documents.doc_ids[row] for row in rows.tolist()], lexical_hits) / best).tolist()
        document, title, opening, passage = (
            none if cosines is None else cosines[rows, query].tolist() for cosines in self.by_part[:4]
        )
        columns: dict[str, Sequence[Any]] = {
            # of all candidates: a product of fewer rows may differ in its last bits
            "cosine": documents.vector_parts.plain_cosines(documents.raw, raw[None])[rows, 0].tolist(),
            "corrected": document,
            "title": [None if cosine is None or np.isnan(cosine) else cosine for cosine in title],
            "opening": opening,
            "passage": passage,
            "compared": self.cosines[query, rows].tolist(),
            "fwd": none if self.fwd is None else self.fwd[query, rows].tolist(),
            "bwd": none if self.bwd is None else self.bwd[rows].tolist(),
            "score": margins[rows].tolist(),
            "mate": [None if mate < 0 else documents.doc_ids[mate] for mate in mates[rows].tolist()],
            "mates": [None if mate < 0 else float(gains[row]) for row, mate in zip(rows, mates[rows], strict=True)],
            "words": words,
        }
        return [ScoreParts(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def shortlists(
    scored: ScoredCandidates, in_stretches: Sequence[BoolArray], by_words: BoolArray, ends: Sequence[int]
) -> tuple[Rows, list[BoolArray]]:
    """The rows of candidates in any head of the stretches' rankings, and (queries, rows) for each head.

    Each head has the earlier ones, and what words found; the first also each language's best, its neighbourhood.
    """
    heads: list[BoolArray] = []
    first = np.where(in_stretches[0], scored.scores, np.float32(-np.inf))
    head = best_of_languages(first, scored.documents.languages.values()) | by_words
    for in_stretch, end in zip(in_stretches, ends, strict=True):
        for query, among in enumerate(in_stretch):
            head[query, scored.best(query, end, among)[0]] = True
        heads.append(head.copy())
    rows = np.flatnonzero(head.any(axis=0))
    return rows, [of_stretch[:, rows] for of_stretch in heads]
