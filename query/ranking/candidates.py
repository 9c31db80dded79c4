"""Candidates of a ranking: documents that are to be compared with queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray, Passages
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import LexicalHits, NearestDocuments
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import Mix
from query.ranking.fusion import best_lexical_score, fuse, lexical_scores
from query.ranking.hits import Detail, Ranking

Rows = npt.NDArray[np.intp]
Mapped = MutableMapping[str, FloatArray] | None

NearestByLanguage = Sequence[tuple[str, Sequence[NearestDocuments]]]
"""Languages with each query's nearest documents there; the entries of one language are adjacent."""


@dataclass(frozen=True)
class RetrievedDocuments:
    """What a store found for queries.

    Attributes:
        nearest: the documents nearest to each query.
        lexical_hits: each query's lexical hits; empty without hybrid search.
        near_hits: the documents nearest to each query and its best hits together; empty without a second look.
    """

    nearest: NearestByLanguage
    lexical_hits: Sequence[LexicalHits] = ()
    near_hits: NearestByLanguage = ()

    def without(self, doc_ids: Collection[str]) -> RetrievedDocuments:
        """What was found, without some documents."""
        lexical_hits = [
            {lang: [hit for hit in hits if hit[0] not in doc_ids] for lang, hits in of_query.items()}
            for of_query in self.lexical_hits
        ]
        return RetrievedDocuments(_without(self.nearest, doc_ids), lexical_hits, _without(self.near_hits, doc_ids))

    def vectors(self) -> dict[str, FloatArray]:
        """The vectors that the store returned, by id."""
        return {
            doc_id: vector
            for _, by_query in (*self.nearest, *self.near_hits)
            for hits in by_query
            if hits.vectors is not None
            for doc_id, vector in zip(hits.doc_ids, hits.vectors, strict=True)
        }


def _without(nearest: NearestByLanguage, doc_ids: Collection[str]) -> NearestByLanguage:
    return [(lang, [hits.without(doc_ids) for hits in by_query]) for lang, by_query in nearest]


@dataclass(frozen=True)
class CandidateDocuments:
    """Documents of several languages, to be compared with queries.

    Attributes:
        doc_ids: (n,) ids, language after language.
        languages: rows of each language, as a slice.
        raw: (n, dim) vectors as the encoder made them.
        vectors: (n, dim) corrected unit vectors.
        share: share of the language's component that was taken out of the vectors.
    """

    doc_ids: Sequence[str]
    languages: Mapping[str, slice]
    raw: FloatArray
    vectors: FloatArray
    calibration: Calibration
    share: float

    @property
    def vector_parts(self) -> VectorParts:
        """The parts of the vectors."""
        return self.calibration.vector_parts

    @cached_property
    def langs(self) -> list[str]:
        """(n,) language of each document."""
        return [lang for lang, rows in self.languages.items() for _ in range(rows.stop - rows.start)]

    def cosines(self, queries: FloatArray, mapped: Mapped = None) -> FloatArray:
        """(n, queries) cosines that documents are compared by: here the documents' own.

        ``mapped``: as in ``Calibration.cosines``.
        """
        return self.document_cosines(queries, mapped)

    def document_cosines(self, queries: FloatArray, mapped: Mapped = None) -> FloatArray:
        """(n, queries) cosines of the documents' vectors with corrected queries."""
        return self._of_rows(self.vectors, self.languages, queries, mapped)

    def _of_rows(
        self, rows: FloatArray, languages: Mapping[str, slice], queries: FloatArray, mapped: Mapped
    ) -> FloatArray:
        return self.calibration.cosines(rows, languages, queries, self.share, mapped)

    def selected(self, rows: Rows) -> CandidateDocuments:
        """The documents of the rows, ascending."""
        languages = {
            lang: slice(*(int(end) for end in np.searchsorted(rows, (span.start, span.stop))))
            for lang, span in self.languages.items()
        }
        doc_ids = [self.doc_ids[int(row)] for row in rows]
        return CandidateDocuments(doc_ids, languages, self.raw[rows], self.vectors[rows], self.calibration, self.share)

    def fused(self, rows: Rows, scores: FloatArray, lexical_hits: LexicalHits) -> Rows:
        """Ranked rows, reordered within each language by dense and lexical scores (``fuse``)."""
        lexical = lexical_scores([self.doc_ids[int(row)] for row in rows], lexical_hits)
        return rows[fuse([self.langs[int(row)] for row in rows], scores, lexical, best_lexical_score(lexical_hits))]

    def ranking(self, rows: Rows, scores: FloatArray, details: Sequence[Detail] | None) -> Ranking:
        """The ranking of the documents in the rows."""
        return Ranking(
            [self.doc_ids[int(row)] for row in rows], [self.langs[int(row)] for row in rows], scores, details
        )


class CosinesByPart(NamedTuple):
    """(n, queries) cosines of n documents, of their titles, openings and best passages."""

    document: FloatArray
    title: FloatArray
    opening: FloatArray
    passage: FloatArray


@dataclass(frozen=True)
class CandidatesWithPassages(CandidateDocuments):
    """Documents with their passages.

    Attributes:
        stored: (n,) segments of each document as they are stored.
        passages: (p, dim) corrected unit vectors of the segments, document after document.
        starts: (n,) row of each document's first segment.
        segment_languages: rows of each language's segments, as a slice.
        openings: (n, dim) corrected unit vectors of the openings.
        titles: (n, dim) corrected unit vectors of the titles; a zero row where the title is no passage of its own.
        mix: weights of the cosines.
    """

    stored: Sequence[Passages]
    passages: FloatArray
    starts: Rows
    segment_languages: Mapping[str, slice]
    openings: FloatArray
    titles: FloatArray
    mix: Mix

    @property
    def has_title(self) -> BoolArray:
        """(n,) whether the title is a passage of its own."""
        return np.asarray(self.titles.any(axis=1), dtype=np.bool_)

    def cosines(self, queries: FloatArray, mapped: Mapped = None) -> FloatArray:
        """(n, queries) mean of the cosines of document, title, opening and best passage, by their weights."""
        weights = np.tile(np.array(self.mix, dtype=np.float32), (len(self.doc_ids), 1))
        weights[~self.has_title, Mix._fields.index("title")] = 0
        weights /= weights.sum(axis=1, keepdims=True)
        by_part = zip(weights.T, self.cosines_by_part(queries, mapped), strict=True)
        return np.asarray(sum(weight[:, None] * cosines for weight, cosines in by_part), dtype=np.float32)

    def cosines_by_part(self, queries: FloatArray, mapped: Mapped = None) -> CosinesByPart:
        """(n, queries) cosines of each part; 0 for a title that is no passage of its own."""
        mapped = {} if mapped is None else mapped
        document, segments = self.document_cosines(queries, mapped), self.segment_cosines(queries, mapped)
        if not len(self.starts):
            return CosinesByPart(document, document, document, document)
        best: FloatArray = np.maximum.reduceat(segments, self.starts, axis=0)
        titles, openings = (
            self._of_rows(rows, self.languages, queries, mapped) for rows in (self.titles, self.openings)
        )
        return CosinesByPart(document, titles, openings, best)

    def segment_cosines(self, queries: FloatArray, mapped: Mapped = None) -> FloatArray:
        """(p, queries) cosines of the segments."""
        return self._of_rows(self.passages, self.segment_languages, queries, mapped)
