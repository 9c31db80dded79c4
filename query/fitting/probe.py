"""The probe: choose how to rank a collection, by evidence from the collection.

Choices are compared as a user searches: the ranker ranks the whole collection, with passages, for the evidence's
queries. If documents answer queries of other languages (judgements, concepts, mates), the best choice by MAP on half of
the topics is reported on the other half. If only titles find the rest of their own documents, the languages are made
equal unless the encoder treats them equally or titles lose by it.

How much titles count is decided by judgements alone. Queries of other evidence are titles, so documents are compared
without their titles there, unless there are documents whose windows repeat the title. Only documents in other languages
may answer such a title, so that more balance would always win: none above the usual is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from encoders.console import Console, Progress
from encoders.cores import on_all_cores
from encoders.document import FloatArray
from encoders.methods.vector_parts import weightings
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import DEFAULT, NO_TITLES, USUAL_MIX, CalibrationChoice, Mix, TriedChoice
from query.calibration.margin import MARGINS
from query.evaluation.fairness import own_language_share
from query.evaluation.measures import score
from query.evaluation.significance import is_sure
from query.evaluation.trec_run import Run
from query.fitting.evidence import Evidence
from query.fitting.probe_vectors import ProbeVectors, ReadOnce
from query.fitting.statistics import CalibrationSamples, fit_statistics
from query.ranking.fair_ranker import STRETCHES, FairRanker
from query.ranking.hits import Ranking
from query.ranking.search_choice import SearchChoice

RANKS = (0, 1, 2, 4, 8)
BALANCES = (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
LIFTS = (0.0, 0.5, 0.8, 0.98)
"""Shares of a mate's lead; the whole lead would leave mates without an order."""
BARS = (0.3, 0.5, 0.7, 0.9)
MIXES = (
    USUAL_MIX,
    NO_TITLES,
    Mix(document=1, title=1, opening=1, passage=1),
    Mix(document=1, title=2, opening=1, passage=1),
    Mix(document=2, title=1, opening=1, passage=2),
    Mix(document=1, title=1, opening=0, passage=2),
)
LARGE = 50_000
"""Documents of a collection from which a second look is not tried: it takes as long as the first."""
NEAR_FAIR = 0.2
"""Largest excess of own-language neighbours over the fair share, from 0 (fair) to 1 (all are in the own language)."""
_LOST = 0.02
_BY_CHANCE = 0.05
"""Probability that a comparison changes a setting by chance; rivals that are compared at once share it."""
_DEPTH = STRETCHES[0]
_BLOCK = 32
"""Queries whose candidates are in memory at once on each core."""


UNBALANCED = replace(DEFAULT, balance=0.0)


def probe(
    store: VectorStore,
    samples: CalibrationSamples,
    model: str,
    evidence: Evidence,
    *,
    console: Console | None = None,
) -> tuple[CalibrationChoice, list[TriedChoice]]:
    """Return the choice to rank with, and all choices tried on the evidence."""
    with (console or Console(quiet=True)).progress("deciding how to rank", None, "choices") as advance:
        trial = _Trial(store, samples, model, evidence, advance)
        choice = _by_neighbours(trial) if evidence.kind == "titles" else _by_relevance(trial)
        return choice, trial.table(choice)


def probe_unbalanced(
    store: VectorStore, samples: CalibrationSamples, model: str, evidence: Evidence
) -> list[TriedChoice]:
    """The results of the choice that balances nothing, and of one that makes all languages equal."""
    return _Trial(store, samples, model, evidence, Progress()).table(UNBALANCED)


def _by_relevance(trial: _Trial) -> CalibrationChoice:
    """Improve one setting after the other, beginning where documents with counterparts usually are ranked best."""
    start = replace(DEFAULT, lift=LIFTS[-1], second_look=trial.documents <= LARGE)
    best = trial.climbed(start, [replace(start, rank=rank) for rank in trial.ranks])
    best = trial.better(best, [replace(best, margin=form) for form in MARGINS])
    best = trial.better(best, [replace(best, weights=weights) for weights in trial.weightings])
    if trial.judged:
        best = trial.better(best, [replace(best, mix=mix) for mix in MIXES])
    best = trial.climbed(best, [replace(best, lift=lift) for lift in LIFTS])
    if best.lift:
        best = trial.climbed(best, [replace(best, bar=bar) for bar in BARS])
    if best.second_look and trial.of(replace(best, second_look=False)).value >= trial.of(best).value:
        best = replace(best, second_look=False)
    return trial.climbed(best, [replace(best, balance=balance) for balance in trial.balances])


def _by_neighbours(trial: _Trial) -> CalibrationChoice:
    """The default, or the largest balance below it that loses no titles; no balance if that is near fair already.

    A title's own document does not count among its neighbours, nor do mates: they only hide that languages differ.
    """
    plain = trial.of(replace(UNBALANCED, lift=0.0, second_look=False))
    bias = (plain.own_language - trial.fair) / (1.0 - trial.fair) if trial.fair < 1.0 else 0.0
    if bias <= NEAR_FAIR:
        return UNBALANCED
    choices = [replace(DEFAULT, balance=balance) for balance in reversed(BALANCES) if balance <= DEFAULT.balance]
    return next((choice for choice in choices if trial.of(choice).value >= plain.value - _LOST), DEFAULT)


class _Trial:
    """Ranks the evidence's queries by one choice after another.

    Attributes:
        documents: number of the collection's documents.
        fair: share of the first hits that would be in the query's language if languages played no part.
    """

    def __init__(
        self, store: VectorStore, samples: CalibrationSamples, model: str, evidence: Evidence, advance: Progress
    ) -> None:
        self._store, self._samples, self._model, self._evidence = store, samples, model, evidence
        self._advance = advance
        self._languages = sorted(store.count(model))
        self._largest_language = max(store.count(model).values(), default=0)
        self.documents = sum(store.count(model).values())
        self._tried: dict[CalibrationChoice, tuple[TriedChoice, FloatArray]] = {}
        self.fair = 1 / max(len(self._languages), 1)
        numbers = {topic: number for number, topic in enumerate(dict.fromkeys(evidence.topics))}
        self._topics = np.array([numbers[topic] for topic in evidence.topics])

    @property
    def judged(self) -> bool:
        """Whether persons judged which documents answer."""
        return self._evidence.kind == "judgements"

    @property
    def has_repeated_titles(self) -> bool:
        """Whether there are titles that all windows of their documents repeat, so that only counterparts may answer."""
        return any(map(any, self._samples.repeated.values()))

    @property
    def balances(self) -> list[float]:
        """Balances to try. More balance would always win by titles that only counterparts may answer."""
        bounded = self.has_repeated_titles and not self.judged
        return [balance for balance in BALANCES if balance <= DEFAULT.balance or not bounded]

    @cached_property
    def _by_means(self) -> Calibration:
        return fit_statistics(self._samples, self._model)

    @cached_property
    def _widest(self) -> Calibration:
        return fit_statistics(self._samples, self._model, rank=max(self.ranks))

    @property
    def ranks(self) -> list[int]:
        """Ranks to try, below the width of the narrowest part: else nothing would be left of it."""
        narrowest = min(self._by_means.vector_parts.widths)
        return [rank for rank in RANKS if rank < narrowest]

    @property
    def weightings(self) -> list[tuple[float, ...]]:
        """Weights to try; only ``()``, equal weights, if the vectors have one part."""
        parts = len(self._by_means.vector_parts.widths)
        return weightings(parts) if parts > 1 else [()]

    def of(self, choice: CalibrationChoice) -> TriedChoice:
        """Measure a choice."""
        return self._try([choice])[0][0]

    def better(self, best: CalibrationChoice, others: Sequence[CalibrationChoice]) -> CalibrationChoice:
        """The best of others if its gain on the deciding topics is significant; else ``best``."""
        rivals = [choice for choice in others if choice != best]
        results = dict(zip([best, *rivals], self._try([best, *rivals]), strict=True))
        challenger = max(rivals, key=lambda choice: results[choice][0].value, default=best)
        gains = (results[challenger][1] - results[best][1])[::2]
        return challenger if is_sure(gains, _BY_CHANCE / max(len(rivals), 1)) else best

    def climbed(self, best: CalibrationChoice, row: Sequence[CalibrationChoice]) -> CalibrationChoice:
        """The best of a row of choices that ``best`` is among, by steps from neighbour to neighbour."""
        at = row.index(best)
        for step in (1, -1):
            while 0 <= at + step < len(row) and self.better(row[at], [row[at + step]]) != row[at]:
                at += step
        return row[at]

    def table(self, chosen: CalibrationChoice) -> list[TriedChoice]:
        """All choices tried, the one to rank with marked; the ends of the dial are tried too, to be shown."""
        self._try([chosen, *(replace(chosen, balance=balance) for balance in (BALANCES[0], BALANCES[-1]))])
        return [
            TriedChoice(choice, result.value, result.held_out, result.own_language, chosen=choice == chosen)
            for choice, (result, _) in self._tried.items()
        ]

    def _try(self, choices: Sequence[CalibrationChoice]) -> list[tuple[TriedChoice, FloatArray]]:
        """Each choice's result, and its (topics,) values."""
        new = [choice for choice in dict.fromkeys(choices) if choice not in self._tried]
        pooled: dict[CalibrationChoice, dict[int, Ranking]] = {choice: {} for choice in new}
        in_own_language: dict[CalibrationChoice, dict[int, Ranking]] = {choice: {} for choice in new}
        titles = self._evidence.kind == "titles"

        def rankings_of(block: tuple[str, list[int]]) -> list[tuple[list[Ranking], list[Ranking]]]:
            (lang, rows), read = block, ReadOnce()
            return [
                (
                    self._ranked(choice, lang, rows, self._languages, read),
                    self._ranked(choice, lang, rows, [lang], read) if titles else [],
                )
                for choice in new
            ]

        blocks = list(self._blocks()) if new else []
        for (_, rows), by_choice in zip(blocks, on_all_cores(rankings_of, blocks), strict=True):
            for choice, (rankings, rankings_in_language) in zip(new, by_choice, strict=True):
                pooled[choice] |= zip(rows, rankings, strict=True)
                if titles:
                    in_own_language[choice] |= zip(rows, rankings_in_language, strict=True)
        for choice in new:
            values = self._values((in_own_language if titles else pooled)[choice])
            deciding, held_out = float(values[::2].mean()), float(values[1::2].mean())
            own_language = self._own_language(pooled[choice])
            self._tried[choice] = TriedChoice(choice, deciding, held_out, own_language), values
        self._advance(len(new))
        return [self._tried[choice] for choice in choices]

    def _blocks(self) -> Iterator[tuple[str, list[int]]]:
        """Rows of the evidence's queries, of one language in each block."""
        langs = self._evidence.query_langs
        for lang in dict.fromkeys(langs):
            rows = [row for row, query_lang in enumerate(langs) if query_lang == lang]
            for start in range(0, len(rows), _BLOCK):
                yield lang, rows[start : start + _BLOCK]

    def _ranked(
        self, choice: CalibrationChoice, lang: str, rows: Sequence[int], targets: Sequence[str], read: ReadOnce
    ) -> list[Ranking]:
        """The rankings of documents of some languages for queries of one language, by a choice."""
        if not (self.judged or self.has_repeated_titles):  # titles would find their counterparts' titles too easily
            choice = replace(choice, mix=NO_TITLES)
        calibration = (self._widest.with_rank(choice.rank) if choice.rank else self._by_means).with_choice(choice)
        ranked_by = SearchChoice.of(calibration)
        stored = ProbeVectors(self._store, calibration, ranked_by, self._evidence, rows, read)
        ranker = FairRanker(self._store, calibration, ranked_by, self._largest_language, stored)
        return ranker.rank(self._evidence.queries[list(rows)], lang, targets, _DEPTH)

    def _own_language(self, rankings: Mapping[int, Ranking]) -> float:
        """Share of the query's language in its first hits without the answers, whose ranks are not due to chance."""
        evidence, depth = self._evidence, len(self._languages)
        shares = []
        for query, (answers, lang) in enumerate(zip(evidence.relevant, evidence.query_langs, strict=True)):
            ranking = rankings[query]
            others = [
                hit_lang
                for doc_id, hit_lang in zip(ranking.doc_ids, ranking.langs, strict=True)
                if doc_id not in answers
            ]
            shares.append(own_language_share(others[:depth], lang, depth))
        return float(np.mean(shares))

    def _values(self, rankings: Mapping[int, Ranking]) -> FloatArray:
        """(topics,) average precision, the mean over a topic's queries; for titles the reciprocal rank."""
        from ir_measures import AP, RR, Qrel  # noqa: PLC0415 - half a second

        evidence = self._evidence
        run = Run(
            "probe",
            {
                str(query): list(zip(ranking.doc_ids, map(float, ranking.scores), strict=True))
                for query, ranking in rankings.items()
            },
        )
        qrels = [Qrel(str(query), doc_id, 1) for query, doc_ids in enumerate(evidence.relevant) for doc_id in doc_ids]
        measure = RR if evidence.kind == "titles" else AP
        topics = score(run, qrels, [measure], {str(query) for query in range(len(rankings))}).topics
        values = np.array([topics[str(query)][str(measure)] for query in range(len(rankings))])
        mean: FloatArray = (np.bincount(self._topics, values) / np.bincount(self._topics)).astype(np.float32)
        return mean
