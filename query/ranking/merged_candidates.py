"""The candidates of several queries in several languages, each document once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import BoolArray
from query.ranking.candidates import RetrievedDocuments


@dataclass(frozen=True)
class MergedCandidates:
    """Candidates, language after language, and the queries that have them.

    Attributes:
        doc_ids: (n,) ids of the candidates.
        languages: rows of each language, as a slice.
        nearest: rows of each query's nearest documents in each language, best first.
        by_words: (queries, n) whether the query's lexical search found the candidate.
    """

    doc_ids: Sequence[str]
    languages: Mapping[str, slice]
    nearest: Sequence[Sequence[Sequence[int]]]
    by_words: BoolArray

    @classmethod
    def of(cls, retrieved: RetrievedDocuments) -> MergedCandidates:
        """Merge what was found for the queries."""
        row_of: dict[str, int] = {}
        languages: dict[str, slice] = {}
        queries = len(retrieved.nearest[0][1]) if retrieved.nearest else 0
        nearest: list[list[list[int]]] = [[] for _ in range(queries)]
        by_words: list[list[int]] = [[] for _ in range(queries)]

        def rows(doc_ids: Iterable[str]) -> list[int]:
            return [row_of.setdefault(doc_id, len(row_of)) for doc_id in doc_ids]

        for lang, by_query in retrieved.nearest:
            start = languages[lang].start if lang in languages else len(row_of)
            for query_rows, hits in zip(nearest, by_query, strict=True):
                query_rows.append(rows(hits.doc_ids))
            for query, lexical_hits in enumerate(retrieved.lexical_hits):
                by_words[query] += rows(doc_id for doc_id, _ in lexical_hits[lang])
            languages[lang] = slice(start, len(row_of))
        flags = np.zeros((queries, len(row_of)), dtype=np.bool_)
        for query, of_query in enumerate(by_words):
            flags[query, of_query] = True
        return cls(list(row_of), languages, nearest, flags)

    def in_stretch(self, count: int) -> BoolArray:
        """(queries, n) whether the query has the candidate in a stretch with ``count`` candidates of each language.

        Each stretch also has what words found.
        """
        in_stretch = self.by_words.copy()
        for query, rows_by_language in enumerate(self.nearest):
            for rows in rows_by_language:
                in_stretch[query, rows[:count]] = True
        return in_stretch
