"""Mine mates: documents of a sample, and the documents about the same thing in the other languages.

Two documents are mates if each is the other's nearest in its language, by vectors without the languages' components,
and if their cosine stands out from the neighbourhoods of both (the ratio margin of ``query/calibration/margin.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from encoders.document import FloatArray
from indexer.stores.contract import VectorQuery, VectorStore, read_existing
from query.calibration.calibration import Calibration
from query.calibration.margin import FLOOR
from query.calibration.summary import MatesSummary
from query.fitting.statistics import PseudoQuery

_NEIGHBOURS = 4
"""Nearest documents of a language in a document's neighbourhood."""
_BARS = (0.0, 1.1, 1.2, 1.3)
"""Bars of the margin to try."""
_SURE = 0.85
"""Least share of checked mates that the check confirms."""
_CHECKS = 2
"""Checks of each document's mates."""
_FEWEST = 20
"""Minimum checks to go by."""


@dataclass(frozen=True)
class MinedMates:
    """Mates of sampled documents.

    Attributes:
        queries: the pseudo-queries of the sampled documents.
        mates: id of each document's mate by language; only documents whose mates could be checked.
        bar: least margin of a mate.
        precision: estimated share of right mates.
    """

    queries: Sequence[PseudoQuery]
    mates: Mapping[str, Mapping[str, str]]
    bar: float
    precision: float

    @property
    def summary(self) -> MatesSummary:
        """How many documents have a mate, and how sure that is."""
        return MatesSummary(len(self.mates) / max(len(self.queries), 1), self.precision, self.bar)

    @property
    def sure(self) -> bool:
        """Whether the mates are sure enough to decide by."""
        return self.precision >= math.sqrt(_SURE)


class _Pair(NamedTuple):
    """A sampled document and its nearest document in another language."""

    doc_id: str
    lang: str
    mate: str
    margin: float
    mutual: bool


def mine_mates(
    store: VectorStore, calibration: Calibration, sample: Sequence[PseudoQuery], *, seed: int = 0
) -> MinedMates:
    """Mine the mates of the sampled documents in a whole collection, whose calibration corrects the vectors.

    Mates are checked by mates: if a document's mates in two other languages are right, they are each other's, too. Two
    right mates agree, so the share of right mates is the root of the share that agrees. A document with a mate in one
    language alone is left out, because nothing checks it. In a collection of two languages nothing checks any mate;
    there, nearly all of the nearest documents must be mutual.
    """
    by_lang: dict[str, list[str]] = {}
    for query in sample:
        by_lang.setdefault(query.lang, []).append(query.doc_id)
    pairs = [pair for lang, doc_ids in by_lang.items() for pair in _pairs(store, calibration, lang, doc_ids)]
    mutual = [pair for pair in pairs if pair.mutual]
    confirmed = _confirmed(store, calibration, mutual, seed)
    estimates = {
        bar: float(np.mean(of_bar))
        for bar in _BARS
        if len(of_bar := [right for margin, right in confirmed if margin >= bar]) >= _FEWEST
    }
    checkable = len(store.count(calibration.model)) > 2
    if not checkable:
        estimates = {0.0: len(mutual) / max(len(pairs), 1)}
    sure = [bar for bar, share in estimates.items() if share >= _SURE]
    bar = sure[0] if sure else max(estimates, key=estimates.__getitem__, default=0.0)
    mates: dict[str, dict[str, str]] = {}
    for pair in mutual:
        if pair.margin >= bar:
            mates.setdefault(pair.doc_id, {})[pair.lang] = pair.mate
    mates = {doc_id: by_lang for doc_id, by_lang in mates.items() if len(by_lang) > 1 or not checkable}
    return MinedMates(sample, mates, bar, estimates.get(bar, 0.0) ** 0.5)


def _confirmed(
    store: VectorStore, calibration: Calibration, mutual: Sequence[_Pair], seed: int
) -> list[tuple[float, bool]]:
    """For two mates of a document: their smaller margin, and whether the second is the nearest to the first."""
    random = np.random.default_rng(seed)
    of_document: dict[str, list[_Pair]] = {}
    for pair in mutual:
        of_document.setdefault(pair.doc_id, []).append(pair)
    checks: dict[tuple[str, str], list[tuple[_Pair, _Pair]]] = {}
    for pairs in of_document.values():
        for _ in range(_CHECKS if len(pairs) > 1 else 0):
            first, second = (pairs[number] for number in random.permutation(len(pairs))[:2])
            checks.setdefault((first.lang, second.lang), []).append((first, second))
    confirmed = []
    for (lang, other), of_languages in checks.items():
        vectors = read_existing(partial(store.vectors, calibration.model), [first.mate for first, _ in of_languages])
        stored = [(first, second) for first, second in of_languages if first.mate in vectors]
        if not stored:
            continue
        raw = np.stack([vectors[first.mate] for first, _ in stored])
        corrected = calibration.correct_documents(raw, {lang: slice(0, len(stored))})
        for (first, second), nearest in zip(stored, _nearest(store, calibration, other, corrected), strict=True):
            right = nearest is not None and nearest.doc_id == second.mate
            confirmed.append((min(first.margin, second.margin), right))
    return confirmed


class _Nearest(NamedTuple):
    """The nearest document of a language to a document.

    Attributes:
        vector: (dim,) corrected vector of the nearest document.
        mean: mean cosine of the ``_NEIGHBOURS`` nearest.
    """

    doc_id: str
    vector: FloatArray
    cosine: float
    mean: float


def _pairs(store: VectorStore, calibration: Calibration, lang: str, doc_ids: Sequence[str]) -> list[_Pair]:
    """The nearest document of each other language to each document of a language."""
    raw = read_existing(partial(store.vectors, calibration.model), doc_ids)
    if not raw:
        return []
    vectors = calibration.correct_documents(np.stack(list(raw.values())), {lang: slice(0, len(raw))})
    pairs = []
    for other in sorted(store.count(calibration.model).keys() - {lang}):
        nearest = _nearest(store, calibration, other, vectors)
        known = [mate.vector for mate in nearest if mate]
        returned = iter(_nearest(store, calibration, lang, np.stack(known)) if known else ())
        for doc_id, mate in zip(raw, nearest, strict=True):
            if mate and (back := next(returned)):
                mean = max((mate.mean + back.mean) / 2, float(FLOOR))
                pairs.append(_Pair(doc_id, other, mate.doc_id, mate.cosine / mean, back.doc_id == doc_id))
    return pairs


def _nearest(store: VectorStore, calibration: Calibration, lang: str, vectors: FloatArray) -> list[_Nearest | None]:
    """For each corrected vector the nearest document of a language; none if the language has no documents."""
    queries = {lang: calibration.queries_for_store(vectors, lang)}
    hits = store.search(VectorQuery(calibration.model, queries, _NEIGHBOURS, with_vectors=True))[lang]
    nearest: list[_Nearest | None] = []
    for vector, of_vector in zip(vectors, hits, strict=True):
        if not of_vector.doc_ids or of_vector.vectors is None:
            nearest.append(None)
            continue
        corrected = calibration.correct_documents(of_vector.vectors, {lang: slice(0, len(of_vector.doc_ids))})
        cosines = calibration.vector_parts.cosines(corrected, vector[None])[:, 0]
        best = int(cosines.argmax())
        nearest.append(_Nearest(of_vector.doc_ids[best], corrected[best], float(cosines[best]), float(cosines.mean())))
    return nearest
