"""A collection while it is encoded again: some documents have the new encoder's vector, the others the old one's.

Both compare in the new encoder's space: an old vector through the migration's map, a new one as it is. A document is
held as both vectors side by side, with zeros in place of the one that does not count: of two it is the old one.
Cosines through a map are smaller or larger than true ones, so what the map says of the documents that have both is held
against what their new vectors say, query by query, and the others are put on that scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa

from encoders.document import BoolArray, FloatArray, Passages, short_hash
from indexer.collection.collection import Collection
from indexer.stores.contract import Filters, VectorStore, Wording
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.margin import FLOOR
from query.calibration.table import KeptCalibration
from query.ranking.fair_ranker import SAME, Choice, Documents, FairRanker, Found, Level, Words

SECOND_FIELD = "second_field"
"""Entry of a calibration's summary: it is of vectors that are made beside those of another model and generation."""


@dataclass(frozen=True)
class TwoFields(MappedCalibration):
    """A migration's calibration, and one of the new encoder's own vectors.

    Attributes:
        fresh: of documents that have a vector of the new encoder.
    """

    fresh: Calibration = field(kw_only=True)

    @classmethod
    def beside(cls, mapped: MappedCalibration, fresh: Calibration) -> TwoFields:
        """Take both."""
        parts = {name: getattr(mapped, name) for name in MappedCalibration.__dataclass_fields__}
        return cls(**parts, fresh=fresh)

    @cached_property
    def mapped(self) -> MappedCalibration:
        """Of documents that have none."""
        return MappedCalibration(**{name: getattr(self, name) for name in MappedCalibration.__dataclass_fields__})

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        return short_hash(self.mapped.id, self.fresh.id)

    @property
    def old_width(self) -> int:
        """Of the old vectors: where the new ones begin."""
        return len(self.pooled.mean)

    def is_fresh(self, vectors: FloatArray) -> BoolArray:
        """(n,) rows with a new vector."""
        return np.asarray(vectors[:, self.old_width :].any(axis=1), dtype=np.bool_)

    def mixed(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Documents of several languages, (n, old dim + new dim), in the new encoder's space: unit rows."""
        fresh, width = self.is_fresh(vectors), self.old_width
        found = np.empty((len(vectors), self.width), dtype=np.float32)
        found[~fresh] = self.mapped.mixed(vectors[~fresh, :width], among(languages, ~fresh), share)
        found[fresh] = self.fresh.mixed(vectors[fresh, width:], among(languages, fresh), share)
        return found

    def passages(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Passages likewise."""
        fresh, width = self.is_fresh(vectors), self.old_width
        found = np.empty((len(vectors), self.width), dtype=np.float32)
        found[~fresh] = self.mapped.passages(vectors[~fresh, :width], among(languages, ~fresh), share)
        found[fresh] = self.fresh.passages(vectors[fresh, width:], among(languages, fresh), share)
        return found

    def as_stored(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as both kinds of vectors, side by side."""
        return np.concatenate([super().as_stored(queries, lang), queries], axis=1)


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
        wording: Wording | None,
    ) -> tuple[Found, Sequence[Words]]:
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

    def _level(self, documents: Documents, queries: FloatArray, members: BoolArray) -> Level:
        """By the candidates that have both vectors, what the map makes of them and what their own say.

        A language's neighbourhood is that of all its documents, whichever vector they have: what those of the other
        kind add to it is what they add through the map.
        """
        fresh = self.calibration.is_fresh(documents.raw)
        if not fresh.any() or fresh.all():
            return SAME
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
        return Level(
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


def among(languages: Mapping[str, slice], chosen: BoolArray) -> dict[str, slice]:
    """Rows of each language, where only some rows are left."""
    before = np.concatenate(([0], np.cumsum(chosen)))
    return {lang: slice(int(before[rows.start]), int(before[rows.stop])) for lang, rows in languages.items()}


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


def ranker(store: VectorStore, calibration: Calibration, choice: Choice, documents: int) -> FairRanker:
    """What ranks by a calibration, the largest language having so many documents."""
    if isinstance(calibration, TwoFields):
        return TwoFieldRanker(store, calibration, choice, documents)
    return FairRanker(store, calibration, choice, documents)


def load(engine: sa.Engine, collection: Collection, wanted: str = "") -> Calibration | None:
    """What a collection is searched with: a calibration, with the second field's where there is one being filled.

    Raises:
        BadInput: no id, or more than one, begins like this.
        ModelMismatch: the calibration is of another model than the collection's vectors.
        StoreError: the artifact can't be read.
    """
    found = calibration_table.load(engine, collection, wanted)
    if not isinstance(found, MappedCalibration) or found.maps.asker is None:
        return found
    kept = second_field(engine, collection, found.maps.asker.model)
    return TwoFields.beside(found, calibration_table.read(engine, collection.name, kept.id)) if kept else found


def place(collection: Collection) -> dict[str, Any]:
    """What tells one second field of a collection from another, in a summary."""
    return {"generation": collection.generation, "beside": collection.model}


def second_field(engine: sa.Engine, collection: Collection, model: str = "") -> KeptCalibration | None:
    """The calibration of a second field, of any model unless one is named; none where there is no such field."""
    return next(
        (
            one
            for one in reversed(calibration_table.every(engine, collection.name))
            if one.active and model in {"", one.model} and one.summary.get(SECOND_FIELD) == place(collection)
        ),
        None,
    )
