"""Drift: the share of queries whose hits a new calibration would change by more than chance.

A query's first ten hits count as changed only if more of them change than between two calibrations of one half of
today's sample each: halves differ by more than two whole samples would, so unchanged documents have nearly no drift.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from encoders.document import unit_rows
from encoders.machine.cores import on_all_cores
from encoders.methods.moments import PartMoments
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration_fitting.document_samples import draw_each
from query.calibration_fitting.language_statistics import SAMPLE, document_moments
from query.calibration_fitting.shrinkage import ShrunkMeans
from query.ranking.fair_ranker import FairRanker

QUERIES = 256
"""Maximum pseudo-queries over all languages."""
_EACH = 8
"""Least pseudo-queries of a language; so the ``QUERIES / _EACH`` languages with the most documents are looked at."""
_HITS = 10
_CHANCE = 0.9
"""Quantile, over a language's queries, of the changes between the halves: up to there a change counts as chance."""


def drift(store: VectorStore, active: Calibration) -> dict[str, float]:
    """By language, the share of the bank's queries whose first ten documents a calibration of today would change."""
    drawn = draw_each(store, active.model, SAMPLE)
    first, second = (
        {lang: document_moments(store, active.model, active.vector_parts, ids[half::2]) for lang, ids in drawn.items()}
        for half in (0, 1)
    )
    if not first:
        return {}
    today = {lang: moments + second[lang] for lang, moments in first.items()}
    chance = changed_hits(store, with_documents(active, first), with_documents(active, second))
    return {
        lang: float((changed > np.quantile(chance[lang], _CHANCE, method="higher")).mean())
        for lang, changed in changed_hits(store, active, with_documents(active, today)).items()
        if lang in chance
    }


def own_language_share(store: VectorStore, calibration: Calibration) -> float | None:
    """Mean share of the query's language among the first hits of pseudo-queries, as many hits as there are languages.

    None if there is nothing to measure: one language, or no pseudo-queries.
    """
    languages = sorted(store.count())
    banks = {lang: statistics for lang, statistics in calibration.languages.items() if len(statistics.bank)}
    asked = sorted(banks.keys() & set(languages))[: QUERIES // _EACH]
    if len(languages) < 2 or not asked:
        return None
    ranker = FairRanker(store, calibration, passages=False)

    def shares_in(lang: str) -> float:
        queries, sources = unit_rows(banks[lang].bank[:_EACH]), banks[lang].sources[:_EACH]
        rankings = ranker.rank(queries, lang, languages, len(languages), without=[{source} for source in sources])
        return float(np.mean([list(ranking.langs).count(lang) / len(languages) for ranking in rankings]))

    return float(np.mean(on_all_cores(shares_in, asked)))


def with_documents(active: Calibration, moments: Mapping[str, PartMoments]) -> Calibration:
    """The calibration with the means of documents from ``moments``."""
    shrunk = ShrunkMeans(moments)
    languages = {
        lang: replace(statistics, means={**statistics.means, "document": shrunk.means[lang]})
        for lang, statistics in active.languages.items()
        if lang in moments
    }
    return replace(active, languages=languages, pooled={**active.pooled, "document": shrunk.pooled})


def changed_hits(store: VectorStore, before: Calibration, after: Calibration) -> dict[str, npt.NDArray[np.intp]]:
    """By language, (pseudo-queries,) how many of the first ten documents differ between two calibrations.

    Passages, whose statistics do not change, are not compared. Mates do not count, so a small difference stays small.
    """
    documents = store.count()
    banks = {lang: statistics.bank for lang, statistics in before.languages.items() if len(statistics.bank)}
    languages = sorted(banks, key=lambda lang: -documents.get(lang, 0))[: QUERIES // _EACH] if documents else []
    rankers = [FairRanker(store, replace(made, mates=False), passages=False) for made in (before, after)]

    def changes_in(lang: str) -> npt.NDArray[np.intp]:
        queries = unit_rows(banks[lang][: QUERIES // len(languages)])
        old, new = (ranker.rank(queries, lang, sorted(documents), _HITS) for ranker in rankers)
        changes = [len({*was.doc_ids} - {*now.doc_ids}) for was, now in zip(old, new, strict=True)]
        return np.array(changes, dtype=np.intp)

    return dict(zip(languages, on_all_cores(changes_in, languages), strict=True))
