"""Candidates of a ranking: documents that are to be compared with queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoders.document import BoolArray, FloatArray, Passages
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import LexicalHits, NearestDocuments
from indexer.stores.matrix import Rows
from query.calibration.corrected_queries import CorrectedQueries
from query.ranking.fusion import best_lexical_score, fuse, lexical_scores
from query.ranking.hits import Detail, Ranking

Digests = npt.NDArray[np.uint32]

NearestByLanguage = Sequence[tuple[str, Sequence[NearestDocuments]]]
"""Languages with each query's nearest documents there; the entries of one language are adjacent."""


@dataclass(frozen=True)
class RetrievedDocuments:
    """What a store found for queries.

    Attributes:
        nearest: the documents nearest to each query.
        lexical_hits: each query's lexical hits; empty without hybrid search.
    """

    nearest: NearestByLanguage
    lexical_hits: Sequence[LexicalHits] = ()

    def without(self, doc_ids: Sequence[Collection[str]]) -> RetrievedDocuments:
        """What was found, for each query without its documents of ``doc_ids``, which may be empty."""
        if not any(doc_ids):
            return self
        nearest = [
            (lang, [hits.without(gone) for hits, gone in zip(by_query, doc_ids, strict=True)])
            for lang, by_query in self.nearest
        ]
        lexical_hits = [
            {lang: [hit for hit in hits if hit[0] not in gone] for lang, hits in of_query.items()}
            for of_query, gone in zip(self.lexical_hits, doc_ids, strict=False)
        ]
        return RetrievedDocuments(nearest, lexical_hits)

    def vectors(self, doc_ids: Sequence[str]) -> FloatArray | None:
        """(ids, dim) vectors of documents as the store returned them; none if it did not return all."""
        doc_ids_of_rows: list[str] = []
        vectors = []
        for _, by_query in self.nearest:
            for hits in by_query:
                if hits.vectors is not None:
                    doc_ids_of_rows += hits.doc_ids
                    vectors.append(hits.vectors)
        if doc_ids_of_rows and doc_ids_of_rows == list(doc_ids):
            return np.concatenate(vectors)
        row_of = {doc_id: row for row, doc_id in enumerate(doc_ids_of_rows)}
        rows = [row_of.get(doc_id, -1) for doc_id in doc_ids]
        return None if not rows or -1 in rows else np.concatenate(vectors)[rows]


@dataclass(frozen=True)
class CandidateDocuments:
    """Documents of several languages, to be compared with queries.

    Attributes:
        doc_ids: (n,) ids, language after language.
        languages: rows of each language, as a slice.
        raw: (n, dim) vectors as the encoder made them.
        vectors: (n, dim) corrected unit vectors.
        vector_parts: the parts of the vectors.
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

    def cosines(self, queries: CorrectedQueries) -> FloatArray:
        """(n, queries) cosines that documents are compared by: here the documents' own."""
        return queries.cosines(self.vectors, self.languages, self.vector_parts)

    @property
    def digests(self) -> Digests:
        """(n,) digest of all vectors that a document is compared by."""
        return row_digests(self.raw)

    def selected(self, rows: Rows) -> CandidateDocuments:
        """The documents of the rows, ascending."""
        languages = {
            lang: slice(*(int(end) for end in np.searchsorted(rows, (span.start, span.stop))))
            for lang, span in self.languages.items()
        }
        doc_ids = [self.doc_ids[int(row)] for row in rows]
        return CandidateDocuments(doc_ids, languages, self.raw[rows], self.vectors[rows], self.vector_parts)

    def fused(self, rows: Rows, scores: FloatArray, lexical_hits: LexicalHits) -> Rows:
        """Ranked rows, reordered within each language by dense and lexical scores (``fuse``)."""
        lexical = lexical_scores([self.doc_ids[int(row)] for row in rows], lexical_hits)
        return rows[fuse([self.langs[int(row)] for row in rows], scores, lexical, best_lexical_score(lexical_hits))]

    def ranking(self, rows: Rows, scores: FloatArray, details: Sequence[Detail] | None) -> Ranking:
        """The ranking of the documents in the rows."""
        return Ranking(
            [self.doc_ids[int(row)] for row in rows], [self.langs[int(row)] for row in rows], scores, details
        )


_WEIGHTS = (1, 1, 1, 2)
"""Weights of the parts of ``CosinesByPart`` in the cosine that documents are compared by (docs/decisions/0005)."""


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
        stored: (n,) passages of each document as they are stored.
        passages: (p, dim) corrected unit vectors of the passages, document after document; a title is the last.
        borders: (n + 1,) row of each document's first passage, and the number of passages.
        passage_languages: rows of each language's passages, as a slice.
        has_title: (n,) whether the title is a passage of its own.
        openings: (n, dim) corrected unit vectors of the openings; none if each is its document's first passage.
        passage_digests: (p,) digest of each stored passage.
    """

    stored: Sequence[Passages]
    passages: FloatArray
    borders: Rows
    passage_languages: Mapping[str, slice]
    has_title: BoolArray
    openings: FloatArray | None
    passage_digests: Digests

    @property
    def digests(self) -> Digests:
        """(n,) digest of all vectors that a document is compared by."""
        places = np.arange(len(self.passage_digests)) - np.repeat(self.borders[:-1], np.diff(self.borders))
        by_place = self.passage_digests * (2 * places + 1).astype(np.uint32)
        of_passages = np.add.reduceat(by_place, self.borders[:-1]) if len(by_place) else by_place
        opening = row_digests(self.openings) if self.openings is not None else np.uint32(0)
        return np.asarray(super().digests + np.uint32(3) * of_passages + np.uint32(5) * opening, dtype=np.uint32)

    def selected(self, rows: Rows) -> CandidatesWithPassages:
        """The documents of the rows, ascending, with their passages."""
        documents = super().selected(rows)
        counts = np.diff(self.borders)[rows]
        borders = np.concatenate(([0], np.cumsum(counts)))
        passage_rows = np.repeat(self.borders[rows] - borders[:-1], counts) + np.arange(borders[-1])
        return CandidatesWithPassages(
            documents.doc_ids,
            documents.languages,
            documents.raw,
            documents.vectors,
            documents.vector_parts,
            [self.stored[int(row)] for row in rows],
            self.passages[passage_rows],
            borders,
            passage_rows_by_language(documents.languages, borders),
            self.has_title[rows],
            None if self.openings is None else self.openings[rows],
            self.passage_digests[passage_rows],
        )

    def cosines(self, queries: CorrectedQueries) -> FloatArray:
        """(n, queries) mean of the cosines of document, title, opening and, with twice the weight, best passage.

        A document without a title passage is compared by the other cosines.
        """
        weights = np.tile(np.array(_WEIGHTS, dtype=np.float32), (len(self.doc_ids), 1))
        weights[~self.has_title, CosinesByPart._fields.index("title")] = 0
        weights /= weights.sum(axis=1, keepdims=True)
        by_part = zip(weights.T, self.cosines_by_part(queries)[0], strict=True)
        return np.asarray(sum(weight[:, None] * cosines for weight, cosines in by_part), dtype=np.float32)

    def cosines_by_part(self, queries: CorrectedQueries) -> tuple[CosinesByPart, FloatArray]:
        """(n, queries) cosines of each part, 0 for a title that is no passage; and (p, queries) of all passages."""
        document = queries.cosines(self.vectors, self.languages, self.vector_parts)
        passages = queries.cosines(self.passages, self.passage_languages, self.vector_parts)
        opening = (
            passages[self.borders[:-1]]
            if self.openings is None
            else queries.cosines(self.openings, self.languages, self.vector_parts)
        )
        title, best = np.zeros_like(document), document[:0]
        if len(document):
            titles = self.borders[1:][self.has_title] - 1
            title[self.has_title] = passages[titles]
            starts_and_titles = np.concatenate((self.borders[:-1], titles))
            order = np.argsort(starts_and_titles)
            largest = combined_groups(np.maximum, passages, starts_and_titles[order])
            best = largest[order < len(document)]
        return CosinesByPart(document, title, opening, best), passages


def passage_rows_by_language(languages: Mapping[str, slice], borders: Rows) -> dict[str, slice]:
    """Rows of each language's passages, by the rows of its documents and the first passage of each document."""
    return {lang: slice(int(borders[rows.start]), int(borders[rows.stop])) for lang, rows in languages.items()}


def row_digests(rows: FloatArray) -> Digests:
    """(n,) digest of the bytes of each row of (n, dim) float32: a sum with odd multipliers, modulo 2³²."""
    bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
    digests: Digests = np.einsum("ij,j->i", bits, _multipliers(bits.shape[1]))
    return digests


@cache
def _multipliers(count: int) -> Digests:
    return np.random.default_rng(0).integers(0, 1 << 31, count, dtype=np.uint32) * np.uint32(2) + np.uint32(1)


_SMALL_GROUP = 64
"""Most rows of a group for which taking the groups' rows by place is faster."""


def combined_groups(combine: np.ufunc, values: FloatArray, starts: Rows) -> FloatArray:
    """Groups of adjacent rows of (n, columns), each combined to a row, by the groups' first rows.

    The same as ``combine.reduceat(values, starts, axis=0)``, but faster for many columns and small groups.
    """
    lengths = np.diff(starts, append=len(values))
    most = int(lengths.max(initial=0))
    if most > _SMALL_GROUP:
        return np.asarray(combine.reduceat(values, starts, axis=0))
    combined = values[starts]
    for place in range(1, most):
        longer = np.flatnonzero(lengths > place)
        combined[longer] = combine(combined[longer], values[starts[longer] + place])
    return combined
