"""Several collections of one model, searched as one: candidates of each language come from all of them.

Documents are ``NAME/ID``, and one calibration ranks them. By its own means and pseudo-queries the best hits of every
collection look equally good, so means are pooled, and documents meet the pseudo-queries of all collections.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput
from indexer.stores.contract import (
    Filters,
    NearestDocuments,
    VectorQuery,
    VectorStore,
    in_order,
    read_existing,
)
from indexer.text.language_detection import Detector
from query.calibration.calibration import Calibration, LanguageStatistics, Means
from query.calibration.comparison_space import PLAIN_SPACE
from query.ranking.searcher import Searcher

T = TypeVar("T")
_SEPARATOR = "/"
"""Stands between a collection's name, which has none, and the id of its document."""
_NEWEST = 2
"""Pooled calibrations that are kept: a search of several collections need not make theirs again."""
_newest: dict[tuple[object, ...], Calibration] = {}
_lock = threading.Lock()


def name_and_id(doc_id: str) -> tuple[str, str]:
    """The name of a document's collection, and its id there."""
    name, _, own_id = doc_id.partition(_SEPARATOR)
    return name, own_id


class SeveralStores:
    """The stores of several collections, searched by vectors alone: BM25 is comparable within one store."""

    def __init__(self, searchers: Mapping[str, Searcher], filters: Mapping[str, Filters | None]) -> None:
        self._searchers, self._filters = searchers, filters

    def search(self, query: VectorQuery) -> dict[str, list[NearestDocuments]]:
        """For each target language the nearest documents of all collections to each query."""
        by_lang: dict[str, list[list[NearestDocuments]]] = {lang: [] for lang in query.vectors}
        for name, searcher in self._searchers.items():
            vectors = {lang: rows for lang, rows in query.vectors.items() if lang in searcher.languages}
            if vectors:
                asked = replace(query, vectors=vectors, filters=self._filters.get(name))
                for lang, by_query in searcher.store.search(asked).items():
                    by_lang[lang].append([_named(name, nearest) for nearest in by_query])
        return {
            lang: [_nearest(of_query, query.k) for of_query in zip(*of_stores, strict=True)]
            if of_stores
            else [NearestDocuments([], np.zeros(0, dtype=np.float32))] * len(query.vectors[lang])
            for lang, of_stores in by_lang.items()
        }

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        """Stored vectors, (ids, dim) float32. Raises MissingDocuments: an id is not stored."""
        rows = self._read(doc_ids, lambda store, own_ids: store.vectors(model, own_ids))
        width = next(iter(self._searchers.values())).store.models()[model]
        return np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        """Stored passages, one for each id. Raises MissingDocuments: an id is not stored."""
        return self._read(doc_ids, lambda store, own_ids: store.passages(model, own_ids))

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents in the order of the ids. Raises MissingDocuments: an id is not stored."""
        documents = self._read(doc_ids, lambda store, own_ids: store.get(own_ids))
        return [replace(document, doc_id=doc_id) for doc_id, document in zip(doc_ids, documents, strict=True)]

    def _read(self, doc_ids: Sequence[str], read: Callable[[VectorStore, Sequence[str]], Iterable[T]]) -> list[T]:
        """What the stores have for the ids, in their order."""
        own_ids: dict[str, list[str]] = {}
        for name, own_id in map(name_and_id, doc_ids):
            own_ids.setdefault(name, []).append(own_id)
        items = {
            f"{name}{_SEPARATOR}{own_id}": item
            for name, of_store in own_ids.items()
            for own_id, item in read_existing(
                lambda ids, store=self._searchers[name].store: read(store, ids),  # type: ignore[misc]
                of_store,
            ).items()
        }
        return in_order(items, doc_ids)


def _named(name: str, nearest: NearestDocuments) -> NearestDocuments:
    return replace(nearest, doc_ids=[f"{name}{_SEPARATOR}{doc_id}" for doc_id in nearest.doc_ids])


def _nearest(of_stores: Sequence[NearestDocuments], k: int) -> NearestDocuments:
    doc_ids = [doc_id for nearest in of_stores for doc_id in nearest.doc_ids]
    scores = np.concatenate([nearest.scores for nearest in of_stores])
    order = np.argsort(-scores, kind="stable")[:k]
    vectors = [nearest.vectors for nearest in of_stores if nearest.vectors is not None and len(nearest.doc_ids)]
    return NearestDocuments(
        [doc_ids[row] for row in order], scores[order], np.concatenate(vectors)[order] if vectors else None
    )


def joined(searchers: Mapping[str, Searcher], filters: Mapping[str, Filters | None]) -> Searcher:
    """A searcher of several collections, by name and filters; it is not to be closed, as it uses their stores.

    Raises BadInput: the collections have vectors of different models, or only some of them have a calibration.
    """
    searchers = dict(sorted(searchers.items()))  # so that the order of names does not matter
    models = {name: (searcher.stored_model, searcher.spec.model) for name, searcher in searchers.items()}
    first, *others = models
    if other := next((name for name in others if models[name] != models[first]), None):
        raise BadInput(
            f"{first} and {other} have vectors of different encoders, which can't be compared; search each alone, or "
            f"index one again with the other's encoder: dragoman index … --rebuild --encoder"
        )
    uncalibrated = [name for name, searcher in searchers.items() if searcher.calibration is None]
    if uncalibrated and len(uncalibrated) < len(searchers):
        raise BadInput(
            f"{uncalibrated[0]} has no calibration, and others have one; "
            f"make it: dragoman calibrate -c {uncalibrated[0]}"
        )
    languages: dict[str, int] = {}
    for searcher in searchers.values():
        for lang, count in searcher.languages.items():
            languages[lang] = languages.get(lang, 0) + count
    same = next((one.detector for one in searchers.values() if one.languages.keys() == languages.keys()), None)
    calibration = None
    if not uncalibrated:  # made once for collections that stay as they are
        states = ((name, one.calibration and one.calibration.id, one.languages) for name, one in searchers.items())
        key = tuple((name, calibration_id, tuple(of_one.items())) for name, calibration_id, of_one in states)
        with _lock:
            calibration = _newest.pop(key) if key in _newest else pooled(searchers)
            _newest[key] = calibration
            if len(_newest) > _NEWEST:
                del _newest[next(iter(_newest))]
    return Searcher(
        ", ".join(searchers),
        next(iter(searchers.values())).encoder,
        cast("VectorStore", SeveralStores(searchers, filters)),
        languages,
        same or Detector(languages.keys()),
        calibration,
    )


def pooled(searchers: Mapping[str, Searcher]) -> Calibration:
    """One calibration for calibrated collections of one model; it ranks as the largest's, without a common space.

    Sources of pseudo-queries are ``NAME/ID``. Raises BadInput: a collection is compared through maps of documents.
    """
    calibrations = {name: searcher.calibration for name, searcher in searchers.items() if searcher.calibration}
    for name, calibration in calibrations.items():
        if calibration.space.maps_of_documents:
            raise BadInput(f"{name} is searched through a map, which other collections lack; search it alone")
    sizes = {name: sum(searchers[name].languages.values()) for name in calibrations}
    langs = sorted({lang for calibration in calibrations.values() for lang in calibration.languages})
    return replace(
        calibrations[max(sizes, key=lambda name: sizes[name])],
        languages={lang: _statistics(searchers, calibrations, lang) for lang in langs},
        pooled=_mean([calibration.pooled for calibration in calibrations.values()], list(sizes.values())),
        space=PLAIN_SPACE,
        earlier_id="",
    )


def _statistics(
    searchers: Mapping[str, Searcher], calibrations: Mapping[str, Calibration], lang: str
) -> LanguageStatistics:
    statistics = {
        name: calibration.languages[lang] for name, calibration in calibrations.items() if lang in calibration.languages
    }
    return LanguageStatistics(
        sum(of_collection.documents for of_collection in statistics.values()),
        _mean(
            [of_collection.means for of_collection in statistics.values()],
            [searchers[name].languages.get(lang, 0) for name in statistics],
        ),
        np.concatenate([of_collection.bank for of_collection in statistics.values()]),
        tuple(
            source and f"{name}{_SEPARATOR}{source}"
            for name, of_collection in statistics.items()
            for source in of_collection.sources
        ),
    )


def _mean(means: Sequence[Means], counts: Sequence[int]) -> Means:
    """The mean of means, weighted by numbers of documents; all weigh the same if there are none."""
    weights = counts if any(counts) else [1] * len(counts)
    return {
        kind: np.average([of_collection[kind] for of_collection in means], axis=0, weights=weights).astype(np.float32)
        for kind in means[0]
    }
