"""The candidates of several queries in several languages, each document once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import BoolArray
from indexer.stores.contract import LexicalHits
from query.ranking.candidates import NearestByLanguage


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
    def of(cls, nearest: NearestByLanguage, lexical_hits: Sequence[LexicalHits]) -> MergedCandidates:
        """Merge the queries' nearest documents and lexical hits."""
        row_of: dict[str, int] = {}
        languages: dict[str, slice] = {}
        queries = len(nearest[0][1]) if nearest else 0
        nearest_rows: list[list[list[int]]] = [[] for _ in range(queries)]
        lexical_rows: list[list[int]] = [[] for _ in range(queries)]
        for lang, by_query in nearest:
            start = languages[lang].start if lang in languages else len(row_of)
            for query_rows, candidates in zip(nearest_rows, by_query, strict=True):
                query_rows.append([row_of.setdefault(doc_id, len(row_of)) for doc_id in candidates.doc_ids])
            for rows_of_query, hits in zip(lexical_rows, lexical_hits, strict=False):
                rows_of_query += [row_of.setdefault(doc_id, len(row_of)) for doc_id, _ in hits[lang]]
            languages[lang] = slice(start, len(row_of))
        by_words = np.zeros((queries, len(row_of)), dtype=np.bool_)
        for query, rows in enumerate(lexical_rows):
            by_words[query, rows] = True
        return cls(list(row_of), languages, nearest_rows, by_words)

    def in_stretch(self, end: int) -> BoolArray:
        """(queries, n) whether the query has the candidate in the stretch that ends at a rank."""
        in_stretch = self.by_words.copy()
        for query, rows_by_language in enumerate(self.nearest):
            for rows in rows_by_language:
                in_stretch[query, rows[:end]] = True
        return in_stretch
