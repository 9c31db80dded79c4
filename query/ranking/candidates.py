"""Candidates of a ranking: documents that are to be compared with queries."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from encoders.document import BoolArray, Document, FloatArray, Passages, Rows
from encoders.methods.vector_parts import VectorParts
from indexer.stores.contract import LexicalHits, NearestDocuments
from query.calibration.comparison_space import CorrectedQueries
from query.ranking.fusion import best_lexical_score, fuse, lexical_scores


@dataclass(frozen=True)
class RetrievedDocuments:
    """What a store found for queries."""

    nearest: Mapping[str, Sequence[NearestDocuments]]  # by language, each query's nearest documents
    lexical_hits: Sequence[LexicalHits] = ()  # each query's lexical hits; empty without hybrid search

    def without(self, doc_ids: Sequence[Collection[str]]) -> "RetrievedDocuments":
        """What was found, for each query without its documents of ``doc_ids``, which may be empty."""
        if not any(doc_ids):
            return self
        nearest = {
            lang: [hits.without(gone) for hits, gone in zip(by_query, doc_ids, strict=True)]
            for lang, by_query in self.nearest.items()
        }
        lexical_hits = [
            {lang: [hit for hit in hits if hit[0] not in gone] for lang, hits in of_query.items()}
            for of_query, gone in zip(self.lexical_hits, doc_ids, strict=False)
        ]
        return RetrievedDocuments(nearest, lexical_hits)

    def merged(self, counts: Sequence[int]) -> tuple[list[str], dict[str, slice], list[BoolArray], BoolArray]:
        """The (n,) ids of all documents, each once, the rows of each language, and masks of the candidates.

        For each of ``counts`` (queries, n) whether the document is among the query's nearest of its language, or words
        found it; then the same for words alone.
        """
        row_of: dict[str, int] = {}
        languages: dict[str, slice] = {}
        for lang, by_query in self.nearest.items():
            with_words = (doc_id for hits in self.lexical_hits for doc_id, _ in hits[lang])
            doc_ids = dict.fromkeys(itertools.chain(*(hits.doc_ids for hits in by_query), with_words))
            start = len(row_of)
            row_of.update(zip([doc_id for doc_id in doc_ids if doc_id not in row_of], itertools.count(start)))
            languages[lang] = slice(start, len(row_of))
        queries = len(next(iter(self.nearest.values()), ()))
        by_words = np.zeros((queries, len(row_of)), dtype=np.bool_)
        for query, of_query in enumerate(self.lexical_hits):
            by_words[query, [row_of[doc_id] for lang in self.nearest for doc_id, _ in of_query[lang]]] = True
        in_stretches = [by_words.copy() for _ in counts]
        for by_query in self.nearest.values():
            for query, hits in enumerate(by_query):
                rows = [row_of[doc_id] for doc_id in hits.doc_ids]
                for count, in_stretch in zip(counts, in_stretches, strict=True):
                    in_stretch[query, rows[:count]] = True
        return list(row_of), languages, in_stretches, by_words

    def vectors(self, doc_ids: Sequence[str], read: Callable[[Sequence[str]], FloatArray]) -> FloatArray:
        """(ids, dim) vectors of documents as the store returned them; it is asked to ``read`` the others."""
        nearest = [hits for by_query in self.nearest.values() for hits in by_query if hits.vectors is not None]
        row_of = dict(zip((doc_id for hits in nearest for doc_id in hits.doc_ids), itertools.count()))
        unread = [doc_id for doc_id in doc_ids if doc_id not in row_of]
        vectors = [hits.vectors for hits in nearest if hits.vectors is not None]
        rows = np.concatenate([*vectors, read(unread)] if unread or not vectors else vectors)
        row_of |= zip(unread, itertools.count(len(rows) - len(unread)))
        return np.asarray(rows[[row_of[doc_id] for doc_id in doc_ids]])


@dataclass(frozen=True)
class CandidateDocuments:
    """Documents of several languages, to be compared with queries."""

    doc_ids: Sequence[str]  # (n,) ids, language after language
    languages: Mapping[str, slice]  # rows of each language, as a slice
    raw: FloatArray  # (n, dim) vectors as the encoder made them
    vectors: FloatArray  # (n, dim) corrected unit vectors
    vector_parts: VectorParts  # the parts of the vectors

    @cached_property
    def langs(self) -> list[str]:
        """(n,) language of each document."""
        return [lang for lang, rows in self.languages.items() for _ in range(rows.stop - rows.start)]

    def rows_of(self, doc_ids: Sequence[str]) -> Rows:
        """(ids,) rows of documents."""
        row_of = {doc_id: row for row, doc_id in enumerate(self.doc_ids)}
        return np.array([row_of[doc_id] for doc_id in doc_ids], dtype=np.intp)

    def cosines(self, queries: CorrectedQueries) -> FloatArray:
        """(n, queries) cosines of the documents' own vectors."""
        return queries.cosines(self.vectors, self.languages, self.vector_parts)

    def cosines_by_part(self, queries: CorrectedQueries) -> "CosinesByPart":
        """The cosines that documents are compared by: here the documents' own."""
        return CosinesByPart(self.cosines(queries))

    def selected(self, rows: Rows) -> "CandidateDocuments":
        """The documents of the rows, ascending, without passages."""
        ends = np.searchsorted(rows, [span.stop for span in self.languages.values()]).tolist()
        languages = {lang: slice(*span) for lang, span in zip(self.languages, pairwise((0, *ends)), strict=True)}
        doc_ids = [self.doc_ids[int(row)] for row in rows]
        return CandidateDocuments(doc_ids, languages, self.raw[rows], self.vectors[rows], self.vector_parts)

    def fused(self, rows: Rows, scores: FloatArray, lexical_hits: LexicalHits) -> Rows:
        """Ranked rows, reordered within each language by dense and lexical scores (``fuse``)."""
        lexical = lexical_scores([self.doc_ids[int(row)] for row in rows], lexical_hits)
        return rows[fuse([self.langs[int(row)] for row in rows], scores, lexical, best_lexical_score(lexical_hits))]


class CosinesByPart(NamedTuple):
    """(n, queries) cosines of n documents and their parts; all but the first are none where passages don't count."""

    document: FloatArray
    title: FloatArray | None = None  # NaN for a title that is no passage of its own
    opening: FloatArray | None = None
    passage: FloatArray | None = None
    passages: FloatArray = np.zeros((0, 0), dtype=np.float32)  # (p, queries) cosines of all passages

    def mean(self) -> FloatArray:
        """(n, queries) mean cosine of document, title, opening and, twice, best passage (docs/decisions/0005)."""
        if self.title is None or self.opening is None or self.passage is None:
            return self.document
        untitled = np.isnan(self.title)
        total = self.document + self.opening + 2 * self.passage
        return np.asarray(np.where(untitled, total / 4, (total + self.title) / 5), dtype=np.float32)


@dataclass(frozen=True)
class CandidatesWithPassages(CandidateDocuments):
    """Documents with their passages."""

    stored: Sequence[Passages]  # (n,) passages of each document as they are stored
    passages: FloatArray  # (p, dim) corrected unit vectors, document after document; a title is the last
    borders: Rows  # (n + 1,) row of each document's first passage, and the number of passages
    passage_languages: Mapping[str, slice]  # rows of each language's passages, as a slice
    has_title: BoolArray  # (n,) whether the title is a passage of its own
    openings: FloatArray | None  # (n, dim) corrected unit vectors; none if each is its first passage
    texts: Mapping[str, Document] = field(default_factory=dict)  # documents that were read with the passages, by id

    def cosines_by_part(self, queries: CorrectedQueries) -> CosinesByPart:
        """The cosines of each part."""
        document = self.cosines(queries)
        passages = queries.cosines(self.passages, self.passage_languages, self.vector_parts)
        opening = (
            passages[self.borders[:-1]]
            if self.openings is None
            else queries.cosines(self.openings, self.languages, self.vector_parts)
        )
        title, best = np.full_like(document, np.nan), document[:0]
        if len(document):
            titles = self.borders[1:][self.has_title] - 1
            title[self.has_title] = passages[titles]
            starts_and_titles = np.concatenate((self.borders[:-1], titles))
            order = np.argsort(starts_and_titles)
            largest = combined_groups(np.maximum, passages, starts_and_titles[order])
            best = largest[order < len(document)]
        return CosinesByPart(document, title, opening, best, passages)


def passage_rows_by_language(languages: Mapping[str, slice], borders: Rows) -> dict[str, slice]:
    """Rows of each language's passages, by the rows of its documents and the first passage of each document."""
    return {lang: slice(int(borders[rows.start]), int(borders[rows.stop])) for lang, rows in languages.items()}


def combined_groups(combine: np.ufunc, values: FloatArray, starts: Rows) -> FloatArray:
    """(groups, columns) ``combine.reduceat(values, starts, axis=0)``, which takes ten times as long of many columns."""
    if values.shape[1] < 16:
        return np.asarray(combine.reduceat(values, starts, axis=0))
    lengths = np.diff(starts, append=len(values))
    combined = values[starts]
    for place in range(1, int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        combined[longer] = combine(combined[longer], values[starts[longer] + place])
    return combined
