"""Candidates of a ranking: documents held against queries, with their scores."""

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
from query.ranking.fusion import fuse, lexical_scores, strongest
from query.ranking.hits import Detail, Ranking

Words = Mapping[str, Sequence[tuple[str, float]]]
"""What the lexical arm found for a query: ids and BM25 scores by language."""

Rows = npt.NDArray[np.intp]

CandidatesByLanguage = Sequence[tuple[str, Sequence[Candidates]]]
"""By language what each query found there; what is of one language stands together."""


@dataclass(frozen=True)
class Documents:
    """Documents of several languages, to be held against queries.

    Attributes:
        doc_ids: (n,) ids, one language's after the other's.
        languages: rows of each language, as a slice.
        raw: (n, dim) vectors as the encoder made them.
        vectors: (n, dim) corrected unit vectors.
        parts: what vectors are made of, and how much each part counts.
    """

    doc_ids: Sequence[str]
    languages: Mapping[str, slice]
    raw: FloatArray
    vectors: FloatArray
    parts: VectorParts

    @cached_property
    def langs(self) -> list[str]:
        """(n,) the language of each."""
        return [lang for lang, rows in self.languages.items() for _ in range(rows.stop - rows.start)]

    def cosines(self, queries: FloatArray) -> FloatArray:
        """(n, queries)."""
        return self.parts.cosines(self.vectors, queries)

    def fused(self, rows: Rows, scores: FloatArray, words: Words) -> Rows:
        """Ranked rows in the order that words give them within each language."""
        lexical = lexical_scores([self.doc_ids[int(row)] for row in rows], words)
        return rows[fuse([self.langs[int(row)] for row in rows], scores, lexical, strongest(words))]

    def ranking(self, rows: Rows, scores: FloatArray, details: Sequence[Detail] | None) -> Ranking:
        """The documents of some rows."""
        return Ranking(
            [self.doc_ids[int(row)] for row in rows], [self.langs[int(row)] for row in rows], scores, details
        )


@dataclass(frozen=True)
class DocumentsWithPassages(Documents):
    """The same with their passages.

    Attributes:
        stored: (n,) passages as they are stored.
        passages: (p, dim) corrected unit vectors, one document's after the other's.
        starts: (n,) first passage of each.
        openings: (n, dim) corrected unit vectors of the opening passages together.
    """

    stored: Sequence[Passages]
    passages: FloatArray
    starts: Rows
    openings: FloatArray

    def cosines(self, queries: FloatArray) -> FloatArray:
        """(n, queries) mean over document, best passage and opening."""
        best, opening = self.passage_cosines(queries)
        mean: FloatArray = (super().cosines(queries) + best + opening) / np.float32(3)
        return mean

    def passage_cosines(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, queries) of the best passage, and of the opening."""
        near = self.parts.cosines(self.passages, queries)
        if not len(self.starts):
            return near, near
        best: FloatArray = np.maximum.reduceat(near, self.starts, axis=0)
        return best, self.parts.cosines(self.openings, queries)


@dataclass(frozen=True)
class ScoreScale:
    """What puts documents that are compared by vectors of different kinds on one scale.

    Attributes:
        lift: (queries, n) added to the neighbourhoods.
        rate: (queries, n) that scores are multiplied by.
    """

    lift: FloatArray | np.float32
    rate: FloatArray | np.float32


ONE_SCALE = ScoreScale(np.float32(0), np.float32(1))
"""Nothing is to be done: there is one kind."""


@dataclass(frozen=True)
class Scored:
    """Documents compared with queries.

    Attributes:
        documents: which, and how they are compared.
        cosines: (queries, n).
        fwd: (queries, n) mean of the query's largest in the document's language; none where no margin is taken.
        bwd: (n,) mean of the document's largest with the bank of pseudo-queries; likewise.
        scores: (queries, n) by margin; −∞ where a document is no candidate of that query.
    """

    documents: Documents
    cosines: FloatArray
    fwd: FloatArray | None
    bwd: FloatArray | None
    scores: FloatArray

    def best(self, query: int, k: int, among: BoolArray) -> tuple[Rows, FloatArray]:
        """Rows of a query's k best among some and their scores, best first; equal ones in their order."""
        scores = np.where(among, self.scores[query], np.float32(-np.inf))
        order = largest(scores, k)
        finite: Rows = order[np.isfinite(scores[order])]
        return finite, scores[finite]

    def stretch(self, query: int, k: int, among: BoolArray, words: Words | None) -> tuple[Rows, FloatArray]:
        """The same, in the order that words give them, where there are some."""
        if words is None:
            return self.best(query, k, among)
        rows, scores = self.best(query, len(among), among)
        return self.documents.fused(rows, scores, words)[:k], scores[:k]
