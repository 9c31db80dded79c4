"""The vectors of a collection as a ranker finds them for the evidence's queries of one language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from encoders.document import FloatArray, Passages
from indexer.stores.contract import Filters, LexicalHits, LexicalQuery, VectorStore
from query.calibration.calibration import Bank, Calibration
from query.calibration.corrected_queries import CorrectedQueries
from query.fitting.evidence import Evidence
from query.ranking.candidates import NearestByLanguage
from query.ranking.search_choice import SearchChoice
from query.ranking.stored_vectors import StoredVectors


class ReadOnce:
    """What was read of a collection for some queries: several choices rank the same documents."""

    def __init__(self) -> None:
        self.nearest: dict[tuple[object, ...], NearestByLanguage] = {}
        self.vectors: dict[str, FloatArray] = {}
        self.passages: dict[str, Passages] = {}


class ProbeVectors(StoredVectors):
    """The stored vectors, but each query meets its own document without its opening, or not at all.

    The source documents of the other queries in its block also lack their openings.
    """

    def __init__(
        self,
        store: VectorStore,
        calibration: Calibration,
        choice: SearchChoice,
        evidence: Evidence,
        rows: Sequence[int],
        read: ReadOnce,
    ) -> None:
        """Find documents for the evidence's queries of some rows, all of one language."""
        super().__init__(store, calibration, choice)
        self._evidence, self._rows, self._read = evidence, rows, read
        self._sources = [evidence.sources[row] for row in rows]
        self._rests = {doc_id: evidence.rests[doc_id] for doc_id in self._sources if doc_id in evidence.rests}

    def search(
        self,
        queries: CorrectedQueries,
        targets: Sequence[str],
        k: int,
        filters: Filters | None,
        lexical: LexicalQuery | None,
    ) -> tuple[NearestByLanguage, Sequence[LexicalHits]]:
        """The documents of each language nearest to corrected queries, without vectors: ``vectors`` has the rests'."""
        key = (
            tuple(targets),
            self._calibration.rank,
            self._share,
            self._calibration.vector_parts.weights,
            k,
            queries.vectors.tobytes(),
        )
        if key not in self._read.nearest:
            nearest, _ = super().search(queries, targets, k, filters, lexical)
            self._read.nearest[key] = [
                (
                    lang,
                    [
                        replace(hits.without({source}), vectors=None)
                        for hits, source in zip(by_query, self._excluded, strict=True)
                    ],
                )
                for lang, by_query in nearest
            ]
        return self._read.nearest[key], []

    @property
    def _excluded(self) -> list[str]:
        """The document that each query does not meet; empty: it meets all."""
        return ["" if source in self._rests else source for source in self._sources]

    def vectors(self, doc_ids: Sequence[str]) -> FloatArray:
        """(n, dim) stored vectors; of own documents, the vectors of their rests."""
        read = self._read.vectors
        if new := [doc_id for doc_id in doc_ids if doc_id not in read]:
            read |= dict(zip(new, super().vectors(new), strict=True))
        if not doc_ids:
            return super().vectors(doc_ids)
        return np.stack([self._rests[doc_id].vector if doc_id in self._rests else read[doc_id] for doc_id in doc_ids])

    def passages(self, doc_ids: Sequence[str], raw: FloatArray) -> list[Passages]:
        """Stored passages; of own documents, the passages after the first."""
        read = self._read.passages
        if new := [doc_id for doc_id in doc_ids if doc_id not in read]:
            read |= dict(zip(new, super().passages(new, raw), strict=True))
        return [self._rests[doc_id].passages if doc_id in self._rests else read[doc_id] for doc_id in doc_ids]

    def bank(self, lang: str) -> Bank:
        """The bank of a language, in which no query is its own neighbour."""
        return replace(super().bank(lang), own_rows=self._evidence.bank_rows[list(self._rows)])
