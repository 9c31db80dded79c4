"""One calibration for several collections of one model, as if their documents were one collection's.

A collection's own statistics make its languages comparable, and they hide what its documents have in common: by its
own means and pseudo-queries the best hits of every collection look equally good, whatever the query is about. So means
are pooled, by numbers of documents, and each document is compared with the pseudo-queries of all collections.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from query.calibration.calibration import Calibration, Component, Components, LanguageStatistics
from query.calibration.mapped_calibration import MappedCalibration

SEPARATOR = "/"
"""Stands between a collection's name, which has none, and the id of its document."""


@dataclass(frozen=True)
class CalibratedCollection:
    """A collection's calibration, and its number of documents by language."""

    calibration: Calibration
    documents: Mapping[str, int]


_NEWEST = 2


class PooledCalibrations:
    """The newest pooled calibrations: a search of several collections need not make theirs again."""

    def __init__(self) -> None:
        self._newest: dict[_Key, Calibration] = {}
        self._lock = threading.Lock()

    def of(self, collections: Mapping[str, CalibratedCollection]) -> Calibration:
        """The pooled calibration of collections, by their names.

        Raises:
            BadInput: as ``pooled``.
        """
        key = tuple(
            (name, collection.calibration.id, tuple(collection.documents.items()))
            for name, collection in collections.items()
        )
        with self._lock:
            calibration = self._newest.pop(key, None)
        calibration = calibration or pooled(collections)
        with self._lock:
            self._newest[key] = calibration
            if len(self._newest) > _NEWEST:
                del self._newest[next(iter(self._newest))]
        return calibration


_Key = tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...]
"""What a pooled calibration is made of: names, ids of calibrations, and numbers of documents by language."""


def pooled(collections: Mapping[str, CalibratedCollection]) -> Calibration:
    """One calibration for collections of one model, by their names.

    It ranks as that of the largest collection does, with the languages' means; subspaces and maps into a common space
    are fitted to one collection, and are left out. Sources of pseudo-queries are ``NAME/ID``.

    Raises:
        BadInput: a collection is compared through maps of documents.
    """
    for name, collection in collections.items():
        if isinstance(collection.calibration, MappedCalibration):
            raise BadInput(f"{name} is searched through a map, which other collections lack; search it alone")
    largest = max(collections.values(), key=lambda collection: sum(collection.documents.values())).calibration
    langs = sorted({lang for collection in collections.values() for lang in collection.calibration.languages})
    names = Calibration.__dataclass_fields__.keys() - {"languages", "pooled", "rank"}
    return Calibration(
        **{name: getattr(largest, name) for name in names},
        languages={lang: _statistics(collections, lang) for lang in langs},
        pooled=_mean_components(
            [collection.calibration.pooled for collection in collections.values()],
            [sum(collection.documents.values()) for collection in collections.values()],
        ),
    )


def _statistics(collections: Mapping[str, CalibratedCollection], lang: str) -> LanguageStatistics:
    """Statistics of a language in the collections that have it."""
    statistics = {
        name: collection.calibration.languages[lang]
        for name, collection in collections.items()
        if lang in collection.calibration.languages
    }
    counts = [collections[name].documents.get(lang, 0) for name in statistics]
    return LanguageStatistics(
        sum(of_collection.documents for of_collection in statistics.values()),
        _mean_components([of_collection.components for of_collection in statistics.values()], counts),
        np.concatenate([of_collection.bank for of_collection in statistics.values()]),
        tuple(
            source and f"{name}{SEPARATOR}{source}"
            for name, of_collection in statistics.items()
            for source in of_collection.sources
        ),
    )


def _mean_components(components: Sequence[Components], counts: Sequence[int]) -> Components:
    """The mean of components, weighted by numbers of documents; all weigh the same if there are none."""
    weights = np.asarray(counts if any(counts) else [1] * len(counts), dtype=np.float32)
    return {kind: _mean([of_collection[kind] for of_collection in components], weights) for kind in components[0]}


def _mean(components: Sequence[Component], weights: FloatArray) -> Component:
    mean = np.average([component.mean for component in components], axis=0, weights=weights).astype(np.float32)
    return Component(mean, np.zeros((0, len(mean)), dtype=np.float32))
