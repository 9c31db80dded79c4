"""Ranks a collection that is being encoded again.

Cosines through a map are smaller or larger than true cosines. So what the map says of the documents that have both
vectors is held against what their new vectors say, query by query, and the others are put on that scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import BoolArray, FloatArray, Passages
from indexer.stores.contract import Filters, LexicalQuery, VectorStore
from query.calibration.margin import FLOOR
from query.calibration.two_fields import TwoFields, among
from query.ranking.candidates import ONE_SCALE, CandidatesByLanguage, Documents, ScoreScale, Words
from query.ranking.choice import Choice
from query.ranking.fair_ranker import FairRanker


class TwoFieldRanker(FairRanker):
    """Ranks the documents of a collection that is being encoded again.

    Attributes:
        calibration: of both kinds of vectors.
    """

    calibration: TwoFields

    def __init__(self, store: VectorStore, calibration: TwoFields, choice: Choice, documents: int = 0) -> None:
        """Take an open store that holds vectors of both models, and how many its largest language has."""
        super().__init__(store, calibration, choice, documents)

    def _found(
        self,
        queries: FloatArray,
        targets: Sequence[str],
        k: int,
        filters: Filters | None,
        wording: LexicalQuery | None,
    ) -> tuple[CandidatesByLanguage, Sequence[Words]]:
        """The nearest of those without a new vector first: one that gets it meanwhile is found twice, not never."""
        old, new = self.calibration.model, self.calibration.fresh.model
        by_map = {lang: self.calibration.asked(queries, lang, self._share) for lang in targets}
        by_own = {lang: self.calibration.fresh.asked(queries, lang, self._share) for lang in targets}
        words: Sequence[Words] = []
        if wording is None:
            waiting = self._store.search(old, by_map, k, filters=filters, lacking=new)
        else:
            waiting, words = self._store.search_with_words(old, by_map, k, wording, filters=filters, lacking=new)
        fresh = self._store.search(new, by_own, k, filters=filters)
        return [(lang, field[lang]) for lang in targets for field in (waiting, fresh)], words

    @property
    def _models(self) -> tuple[str, ...]:
        return self.calibration.model, self.calibration.fresh.model

    def _raw(self, doc_ids: Sequence[str]) -> FloatArray:
        """(n, old dim + new dim) of each document the vector that counts."""
        old, new = self.calibration.model, self.calibration.fresh.model
        held = self._store.stamps(new, doc_ids)
        fresh = np.array([doc_id in held for doc_id in doc_ids], dtype=np.bool_)
        width = self.calibration.old_width
        raw = np.zeros((len(doc_ids), width + self.calibration.width), dtype=np.float32)
        raw[~fresh, :width] = self._store.vectors(old, _chosen(doc_ids, ~fresh))
        raw[fresh, width:] = self._store.vectors(new, _chosen(doc_ids, fresh))
        return raw

    def _stored(self, doc_ids: Sequence[str], raw: FloatArray) -> list[Passages]:
        """Passages as wide, of the same kind as their document's vector."""
        fresh = self.calibration.is_fresh(raw)
        width, whole = self.calibration.old_width, raw.shape[1]
        old = iter(self._store.passages(self.calibration.model, _chosen(doc_ids, ~fresh)))
        new = iter(self._store.passages(self.calibration.fresh.model, _chosen(doc_ids, fresh)))
        return [
            _widened(next(new), slice(width, whole), whole) if one else _widened(next(old), slice(0, width), whole)
            for one in fresh
        ]

    def _level(self, documents: Documents, queries: FloatArray, members: BoolArray) -> ScoreScale:
        """By the candidates that have both vectors, what the map makes of them and what their own say.

        A language's neighbourhood is that of all its documents, whichever vector they have: what those of the other
        kind add to it is what they add through the map.
        """
        fresh = self.calibration.is_fresh(documents.raw)
        if not fresh.any() or fresh.all():
            return ONE_SCALE
        own = documents.parts.cosines(documents.vectors, queries).T
        by_map = own.copy()
        by_map[:, fresh] = self._by_old_vectors(documents, queries, fresh)
        own, by_map = (np.where(members, one, _NOT) for one in (own, by_map))
        whole = super()._neighbourhoods(documents, by_map)
        waiting = super()._neighbourhoods(documents, np.where(fresh, _NOT, own))
        mapped, true = (
            super(TwoFieldRanker, self)._neighbourhoods(documents, np.where(fresh, one, _NOT)) for one in (by_map, own)
        )
        counted = members & fresh
        rate = _mean(true, counted) / _mean(mapped, counted)
        power = np.float32(1.0 - self._beta if self.choice.margin == "ratio" else 1.0)
        return ScoreScale(
            np.where(fresh, rate * (whole - mapped), whole - waiting), np.where(fresh, np.float32(1), rate**power)
        )

    def _neighbourhoods(self, documents: Documents, near: FloatArray) -> FloatArray:
        """(queries, n) mean of each query's largest in the document's language, among those with the same vectors."""
        fresh = self.calibration.is_fresh(documents.raw)
        new, old = (
            super(TwoFieldRanker, self)._neighbourhoods(documents, np.where(one, near, _NOT)) for one in (fresh, ~fresh)
        )
        return np.where(fresh, new, old)

    def _by_old_vectors(self, documents: Documents, queries: FloatArray, fresh: BoolArray) -> FloatArray:
        """(queries, fresh) cosines of documents that have both vectors by the old one; −∞ where it is none."""
        model = self.calibration.model
        doc_ids = _chosen(documents.doc_ids, fresh)
        held = self._store.stamps(model, doc_ids)
        there = np.array([doc_id in held for doc_id in doc_ids], dtype=np.bool_)
        languages = among(among(documents.languages, fresh), there)
        vectors = self._store.vectors(model, _chosen(doc_ids, there))
        cosines = np.full((len(queries), len(doc_ids)), _NOT, dtype=np.float32)
        cosines[:, there] = documents.parts.cosines(
            self.calibration.mapped.mixed(vectors, languages, self._share), queries
        ).T
        return cosines


_NOT = np.float32(-np.inf)


def _mean(values: FloatArray, counted: BoolArray) -> FloatArray:
    """(queries, 1) mean of what counts in each row; never next to nothing."""
    total = np.where(counted, values, np.float32(0)).sum(axis=1, keepdims=True)
    mean: FloatArray = total / np.maximum(counted.sum(axis=1, keepdims=True), 1).astype(np.float32)
    return np.maximum(mean, FLOOR)


def _chosen(doc_ids: Sequence[str], chosen: BoolArray) -> list[str]:
    return [doc_id for doc_id, one in zip(doc_ids, chosen, strict=True) if one]


def _widened(passages: Passages, columns: slice, width: int) -> Passages:
    vectors = np.zeros((len(passages.vectors), width), dtype=np.int8)
    vectors[:, columns] = passages.vectors
    return Passages(vectors, passages.offsets)
