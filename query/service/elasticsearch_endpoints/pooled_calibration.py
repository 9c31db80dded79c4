"""One calibration for several collections of one model, as if their documents were one collection's.

A collection's own statistics make its languages comparable, and they hide what its documents have in common: by its
own means and pseudo-queries the best hits of every collection look equally good, whatever the query is about. So means
are pooled, by numbers of documents, and each document is compared with the pseudo-queries of all collections.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from encoders.errors import BadInput
from query.calibration.calibration import Calibration, LanguageStatistics, Means
from query.calibration.comparison_space import PLAIN_SPACE

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
        self._newest: dict[tuple[object, ...], Calibration] = {}
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
            calibration = self._newest.pop(key) if key in self._newest else pooled(collections)
            self._newest[key] = calibration
            if len(self._newest) > _NEWEST:
                del self._newest[next(iter(self._newest))]
        return calibration


def pooled(collections: Mapping[str, CalibratedCollection]) -> Calibration:
    """One calibration for collections of one model, by their names.

    It ranks as that of the largest collection does, with the languages' means; a common space is fitted to one
    collection, and is left out. Sources of pseudo-queries are ``NAME/ID``.

    Raises:
        BadInput: a collection is compared through maps of documents.
    """
    for name, collection in collections.items():
        if collection.calibration.space.maps_of_documents:
            raise BadInput(f"{name} is searched through a map, which other collections lack; search it alone")
    largest = max(collections.values(), key=lambda collection: sum(collection.documents.values())).calibration
    langs = sorted({lang for collection in collections.values() for lang in collection.calibration.languages})
    return replace(
        largest,
        languages={lang: _statistics(collections, lang) for lang in langs},
        pooled=_mean(
            [collection.calibration.pooled for collection in collections.values()],
            [sum(collection.documents.values()) for collection in collections.values()],
        ),
        space=PLAIN_SPACE,
        earlier_id="",
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
        _mean([of_collection.means for of_collection in statistics.values()], counts),
        np.concatenate([of_collection.bank for of_collection in statistics.values()]),
        tuple(
            source and f"{name}{SEPARATOR}{source}"
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
