"""Candidates of a ranking: documents compared with queries, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray, Passages
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import Candidates
from indexer.stores.matrix import largest
from query.ranking.fusion import best_lexical_score, fuse, lexical_scores
from query.ranking.hits import Detail, Ranking, ScoreParts

Words = Mapping[str, Sequence[tuple[str, float]]]
"""A query's lexical hits: ids and BM25 scores by language."""

Rows = npt.NDArray[np.intp]

CandidatesByLanguage = Sequence[tuple[str, Sequence[Candidates]]]
"""Languages with each query's candidates there; the entries of one language are adjacent."""


@dataclass(frozen=True)
class Documents:
    """Documents of several languages, to be compared with queries.

    Attributes:
        doc_ids: (n,) ids, language after language.
        languages: rows of each language, as a slice.
        raw: (n, dim) vectors as the encoder made them.
        vectors: (n, dim) corrected unit vectors.
    """

    doc_ids: Sequence[str]
    languages: Mapping[str, slice]
    raw: FloatArray
    vectors: FloatArray
    vector_parts: VectorParts

    @cached_property
    def langs(self) -> list[str]:
        """(n,) language of each document."""
        return [lang for lang, rows in self.languages.items() for _ in range(rows.stop - rows.start)]

    def cosines(self, queries: FloatArray) -> FloatArray:
        """(n, queries) cosines of the corrected vectors."""
        return self.vector_parts.cosines(self.vectors, queries)

    def selected(self, rows: Rows) -> Documents:
        """The documents of the rows, ascending."""
        languages = {
            lang: slice(*(int(end) for end in np.searchsorted(rows, (span.start, span.stop))))
            for lang, span in self.languages.items()
        }
        doc_ids = [self.doc_ids[int(row)] for row in rows]
        return Documents(doc_ids, languages, self.raw[rows], self.vectors[rows], self.vector_parts)

    def fused(self, rows: Rows, scores: FloatArray, words: Words) -> Rows:
        """Ranked rows, reordered within each language by dense and lexical scores (``fuse``)."""
        lexical = lexical_scores([self.doc_ids[int(row)] for row in rows], words)
        return rows[fuse([self.langs[int(row)] for row in rows], scores, lexical, best_lexical_score(words))]

    def ranking(self, rows: Rows, scores: FloatArray, details: Sequence[Detail] | None) -> Ranking:
        """The ranking of the documents in the rows."""
        return Ranking(
            [self.doc_ids[int(row)] for row in rows], [self.langs[int(row)] for row in rows], scores, details
        )


@dataclass(frozen=True)
class DocumentsWithPassages(Documents):
    """Documents with their passages.

    Attributes:
        passages: (p, dim) corrected unit vectors of the passages, document after document.
        starts: (n,) row of each document's first passage.
        openings: (n, dim) corrected unit vectors of the openings.
    """

    stored: Sequence[Passages]
    passages: FloatArray
    starts: Rows
    openings: FloatArray

    def cosines(self, queries: FloatArray) -> FloatArray:
        """(n, queries) mean of the cosines of document, best passage and opening."""
        best, opening = self.passage_cosines(queries)
        mean: FloatArray = (super().cosines(queries) + best + opening) / np.float32(3)
        return mean

    def passage_cosines(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, queries) cosines of the best passage, and of the opening."""
        cosines = self.vector_parts.cosines(self.passages, queries)
        if not len(self.starts):
            return cosines, cosines
        best: FloatArray = np.maximum.reduceat(cosines, self.starts, axis=0)
        return best, self.vector_parts.cosines(self.openings, queries)


@dataclass(frozen=True)
class ScoreScale:
    """Corrections that put documents with different kinds of vectors on one scale.

    Attributes:
        lift: (queries, n) addend of the neighbourhoods.
        rate: (queries, n) factor of the scores.
    """

    lift: FloatArray | np.float32
    rate: FloatArray | np.float32


ONE_SCALE = ScoreScale(np.float32(0), np.float32(1))
"""No correction: all documents have the same kind of vector."""


@dataclass(frozen=True)
class Scored:
    """Documents compared with queries.

    Attributes:
        cosines: (queries, n) cosines that the margin is taken of.
        fwd: (queries, n) mean of the query's k largest cosines in the document's language; none without a margin.
        bwd: (n,) mean of the document's k largest cosines with the bank's pseudo-queries; none without a margin.
        scores: (queries, n) margin scores; −∞ if a document is not a candidate of the query.
    """

    documents: Documents
    cosines: FloatArray
    fwd: FloatArray | None
    bwd: FloatArray | None
    scores: FloatArray

    def best(self, query: int, k: int, among: BoolArray) -> tuple[Rows, FloatArray]:
        """Rows and scores of a query's k best documents ``among`` (n,), best first; ties keep the documents' order."""
        scores = np.where(among, self.scores[query], np.float32(-np.inf))
        order = largest(scores, k)
        candidates: Rows = order[np.isfinite(scores[order])]
        return candidates, scores[candidates]

    def stretch(self, query: int, k: int, among: BoolArray, words: Words | None) -> tuple[Rows, FloatArray]:
        """The same as ``best``; with lexical hits, reordered by ``Documents.fused``."""
        if words is None:
            return self.best(query, k, among)
        rows, scores = self.best(query, len(among), among)
        return self.documents.fused(rows, scores, words)[:k], scores[:k]

    def parts_of_scores(
        self, query: int, rows: Rows, raw: FloatArray, corrected: FloatArray, words: Words | None
    ) -> list[ScoreParts]:
        """The parts of the scores of the rows' documents, for a query vector as encoded (``raw``) and as corrected."""
        documents = self.documents
        best = opening = None
        if isinstance(documents, DocumentsWithPassages):
            best, opening = (cosines[:, 0] for cosines in documents.passage_cosines(corrected[None]))
        lexical = None
        if words is not None:
            lexical = lexical_scores(documents.doc_ids, words) / max(best_lexical_score(words), _SMALLEST_BM25)
        return [
            ScoreParts(
                cosine=float(documents.vector_parts.plain_cosines(documents.raw[row : row + 1], raw[None])[0, 0]),
                corrected=float(
                    documents.vector_parts.cosines(documents.vectors[row : row + 1], corrected[None])[0, 0]
                ),
                passage=float(best[row]) if best is not None else None,
                opening=float(opening[row]) if opening is not None else None,
                compared=float(self.cosines[query, row]),
                fwd=float(self.fwd[query, row]) if self.fwd is not None else None,
                bwd=float(self.bwd[row]) if self.bwd is not None else None,
                score=float(self.scores[query, row]),
                words=float(lexical[row]) if lexical is not None else None,
            )
            for row in rows
        ]


_SMALLEST_BM25 = 1e-9
