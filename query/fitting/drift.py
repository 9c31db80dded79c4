"""Drift: the share of queries whose hits a new calibration would change by more than chance.

A calibration's means come from a sample, and another sample of the same documents has other means. So a query's first
ten hits count as changed only if more of them change than between two calibrations from one half of today's sample
each. Halves differ by more than two whole samples would, so unchanged documents have nearly no drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from encoders.cores import on_all_cores
from encoders.document import FloatArray, unit_rows
from encoders.methods.moments import PartMoments
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.fitting.sampling import draw_each
from query.fitting.shrinkage import ShrunkParts
from query.fitting.statistics import SAMPLE, document_moments
from query.ranking.fair_ranker import FairRanker

QUERIES = 256
"""Maximum pseudo-queries over all languages."""
_EACH = 8
"""Least pseudo-queries of a language; so the ``QUERIES / _EACH`` languages with the most documents are looked at."""
_HITS = 10
_CHANCE = 0.9
"""Quantile, over a language's queries, of the changes between the halves: up to there a change counts as chance."""


def drift(store: VectorStore, active: Calibration) -> dict[str, float]:
    """By language, the share of the bank's queries whose first ten documents a calibration of today would change.

    Both calibrations, and those of the two halves of today's sample, rank the same documents. They differ only in the
    documents' statistics, so no encoder is needed.
    """
    drawn = draw_each(store, active.model, SAMPLE)
    if not drawn:
        return {}
    first, second = (
        {
            lang: document_moments(store, active.model, active.vector_parts, doc_ids[half::2])
            for lang, doc_ids in drawn.items()
        }
        for half in (0, 1)
    )
    return beyond_chance(store, active, first, second)


def beyond_chance(
    store: VectorStore, active: Calibration, first: Mapping[str, PartMoments], second: Mapping[str, PartMoments]
) -> dict[str, float]:
    """By language, the share of queries whose first ten change by more than between the two halves of a sample.

    ``first`` and ``second`` are the moments of the halves' documents, by language.
    """
    halves = (with_documents(active, half) for half in (first, second))
    chance = changed_hits(store, *halves)
    today = with_documents(active, {lang: moments + second[lang] for lang, moments in first.items()})
    return {
        lang: float((changed > np.quantile(chance[lang], _CHANCE, method="higher")).mean())
        for lang, changed in changed_hits(store, active, today).items()
        if lang in chance
    }


def with_documents(active: Calibration, moments: Mapping[str, PartMoments]) -> Calibration:
    """The calibration with the documents' statistics from ``moments``."""
    shrunk = ShrunkParts(moments)
    languages = {
        lang: replace(
            statistics,
            documents=moments[lang].count,
            means={**statistics.means, "document": shrunk.mean(lang)},
        )
        for lang, statistics in active.languages.items()
        if lang in moments
    }
    return replace(active, languages=languages, pooled={**active.pooled, "document": shrunk.pooled})


def changed_hits(store: VectorStore, before: Calibration, after: Calibration) -> dict[str, npt.NDArray[np.intp]]:
    """By language, (pseudo-queries,) how many of the first ten documents differ between two calibrations.

    The pseudo-queries are those of ``before``, of the languages with the most documents. Passages are not compared,
    because their statistics do not change. Mates do not count, so that a small difference stays small.
    """
    targets = store.count()
    if not targets:
        return {}
    languages = sorted(before.languages, key=lambda lang: -targets.get(lang, 0))[: QUERIES // _EACH]

    def changes_in(lang: str) -> npt.NDArray[np.intp]:
        queries = unit_rows(before.languages[lang].bank[: QUERIES // len(languages)])
        old, new = (_first_tens(store, calibration, queries, lang, targets) for calibration in (before, after))
        return np.array([len(old_ids - new_ids) for old_ids, new_ids in zip(old, new, strict=True)], dtype=np.intp)

    with_queries = [lang for lang in languages if len(before.languages[lang].bank)]
    return dict(zip(with_queries, on_all_cores(changes_in, with_queries), strict=True))


def _first_tens(
    store: VectorStore, calibration: Calibration, queries: FloatArray, lang: str, targets: Mapping[str, int]
) -> list[set[str]]:
    """Ids of each query's first ten documents; ``targets`` are the documents of each language."""
    without_mates = replace(calibration, mates=False)
    ranker = FairRanker(store, without_mates, passages=False, largest_language=max(targets.values()))
    return [set(ranking.doc_ids) for ranking in ranker.rank(queries, lang, sorted(targets), _HITS)]
