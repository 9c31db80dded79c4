"""Drift: how much of what a calibration ranks a new one would rank otherwise, beyond what chance would.

A calibration's means are those of a sample, and another sample of the same documents has others. So a query's first ten
count as changed only where more of them change than between two calibrations that are made of one half of today's
sample each. Those differ by more than two whole samples would: documents that are as they were have next to no drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, unit_rows
from encoders.methods.moments import PartMoments
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.fitting.shrinkage import ShrunkParts
from query.fitting.statistics import SAMPLE, document_moments
from query.ranking.choice import Choice
from query.ranking.fair_ranker import FairRanker

QUERIES = 256
"""Pseudo-queries over all languages, at most; of many languages a few more."""
_EACH = 8
_HITS = 10
_CHANCE = 0.9
"""Of a language's queries, the share whose first ten change no more between the halves than counts as chance."""


def drift(store: VectorStore, active: Calibration) -> dict[str, float]:
    """By language, the share of the bank's queries whose first ten documents a calibration of today would change.

    The same documents are ranked by both, and by those of two halves of today's sample. What decides is the documents'
    statistics: no encoder is needed.
    """
    drawn = {lang: store.sample(active.model, lang, SAMPLE) for lang in store.count()}
    first, second = (
        {lang: document_moments(store, active.model, active.parts, doc_ids[half::2]) for lang, doc_ids in drawn.items()}
        for half in (0, 1)
    )
    return beyond_chance(store, active, first, second)


def beyond_chance(
    store: VectorStore, active: Calibration, first: Mapping[str, PartMoments], second: Mapping[str, PartMoments]
) -> dict[str, float]:
    """By language, the share of its queries whose first ten change by more than between two halves of a sample.

    Args:
        store: holds the documents that are ranked.
        active: the calibration that may have drifted.
        first: the documents' moments of one half, by language.
        second: of the other.
    """
    halves = (with_documents(active, half) for half in (first, second))
    chance = changes(store, *halves)
    today = with_documents(active, {lang: one + second[lang] for lang, one in first.items()})
    return {
        lang: float((changed > np.quantile(chance[lang], _CHANCE, method="higher")).mean())
        for lang, changed in changes(store, active, today).items()
        if lang in chance
    }


def with_documents(active: Calibration, moments: Mapping[str, PartMoments]) -> Calibration:
    """The same calibration with other documents' statistics."""
    shrunk = ShrunkParts(moments)
    languages = {
        lang: replace(
            one,
            documents=moments[lang].count,
            mean=shrunk.mean(lang),
            subspace=shrunk.subspace(lang, active.rank),
        )
        for lang, one in active.languages.items()
        if lang in moments
    }
    return replace(active, languages=languages, pooled=shrunk.pooled(active.rank))


def changes(store: VectorStore, before: Calibration, after: Calibration) -> dict[str, npt.NDArray[np.intp]]:
    """By language, for each of its pseudo-queries how many of the first ten documents are others.

    The pseudo-queries are the first calibration's; passages, which neither changes, are left out.
    """
    targets = sorted(store.count())
    each = max(_EACH, QUERIES // max(len(before.languages), 1))
    found = {}
    for lang, one in before.languages.items():
        queries = unit_rows(one.bank[:each])
        if len(queries):
            first, second = (_tens(store, each, queries, lang, targets) for each in (before, after))
            found[lang] = np.array([len(a - b) for a, b in zip(first, second, strict=True)])
    return found


def _tens(
    store: VectorStore, calibrated: Calibration, queries: FloatArray, lang: str, targets: Sequence[str]
) -> list[set[str]]:
    ranker = FairRanker(store, calibrated, replace(Choice.of(calibrated), passages=False))
    return [set(ranking.doc_ids) for ranking in ranker.rank(queries, lang, targets, _HITS)]
