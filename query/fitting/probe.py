"""The probe: choose the rank, margin, balance and weights to rank a collection with, by evidence from the collection.

With judgements, or documents that share a ``concept``, choices are compared by MAP on half of the topics, and the
best choice is reported on the other half. With neither, the probe takes the smallest balance that brings the share of
own-language neighbours near the fair share while titles still find the rest of their own documents.

Documents are compared by their vectors alone: passages improve every choice and hardly change which is best
(docs/methods.md), and they would take the time of a search for each choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from encoders.methods.vector_parts import weightings
from indexer.stores.matrix import largest
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice, TriedChoice
from query.calibration.margin import MARGINS, centring, exponent, language_neighbourhoods, margin, neighbourhood
from query.evaluation.fairness import own_language_share
from query.evaluation.measures import score
from query.evaluation.trec_run import Run
from query.fitting.evidence import Evidence
from query.fitting.statistics import CalibrationSamples, fit_statistics

RANKS = (0, 1, 2, 4, 8)
BALANCES = (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
NEAR_FAIR = 0.2
"""Largest excess of own-language neighbours over the fair share, from 0 (fair) to 1 (all are in the own language)."""
_LOST = 0.02
_DEPTH = 100


UNBALANCED = CalibrationChoice(balance=0.0)


def probe(samples: CalibrationSamples, model: str, evidence: Evidence) -> tuple[CalibrationChoice, list[TriedChoice]]:
    """Return the choice to rank with, and all choices tried on the evidence."""
    trial = _Trial(samples, model, evidence)
    choice = _by_neighbours(trial) if evidence.kind == "titles" else _by_relevance(trial)
    return choice, trial.table(choice)


def probe_unbalanced(samples: CalibrationSamples, model: str, evidence: Evidence) -> list[TriedChoice]:
    """The result of the one choice that balances nothing."""
    return _Trial(samples, model, evidence).table(UNBALANCED)


def _by_relevance(trial: _Trial) -> CalibrationChoice:
    """Improve rank, margin, balance and weights in turn; each changes only if the gain exceeds its standard error."""
    best = trial.better(DEFAULT, [replace(DEFAULT, rank=rank) for rank in trial.ranks])
    best = trial.better(best, [replace(best, margin=form) for form in MARGINS])
    best = trial.better(best, [replace(best, balance=balance) for balance in BALANCES])
    return trial.better(best, [replace(best, weights=weights) for weights in trial.weightings])


def _by_neighbours(trial: _Trial) -> CalibrationChoice:
    """The smallest balance that is near fair and loses no titles; the default if there is none."""
    choices = [CalibrationChoice(balance=balance) for balance in BALANCES if balance <= DEFAULT.balance]
    tried = {choice: trial.of(choice) for choice in choices}
    unbalanced = tried[choices[0]]
    for choice, result in tried.items():
        bias = (result.own_language - trial.fair) / (1.0 - trial.fair) if trial.fair < 1.0 else 0.0
        if bias <= NEAR_FAIR and result.value >= unbalanced.value - _LOST:
            return choice
    return DEFAULT


class _Trial:
    """Ranks the evidence's pool by one choice after another; choices share cached cosines and statistics.

    Attributes:
        fair: share of the first hits that would be in the query's language if languages played no part.
    """

    def __init__(self, samples: CalibrationSamples, model: str, evidence: Evidence) -> None:
        self._samples, self._model, self._evidence = samples, model, evidence
        self._languages = list(samples.documents)
        self._compared: dict[tuple[int, float, tuple[float, ...]], tuple[FloatArray, FloatArray, FloatArray]] = {}
        self._tried: dict[CalibrationChoice, tuple[TriedChoice, FloatArray]] = {}
        self.fair = float(np.mean([(evidence.langs == lang).mean() for lang in evidence.query_langs]))
        numbers = {topic: number for number, topic in enumerate(dict.fromkeys(evidence.topics))}
        self._topics = np.array([numbers[topic] for topic in evidence.topics])

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
        return self._try(choice)[0]

    def better(self, best: CalibrationChoice, others: Sequence[CalibrationChoice]) -> CalibrationChoice:
        """The best of others if its gain on the deciding topics exceeds the gain's standard error; else ``best``."""
        challenger = max(others, key=lambda choice: self.of(choice).value)
        gain = (self._try(challenger)[1] - self._try(best)[1])[::2]
        error = float(gain.std()) / max(len(gain), 1) ** 0.5
        return challenger if float(gain.mean()) > error else best

    def table(self, chosen: CalibrationChoice) -> list[TriedChoice]:
        """All choices tried, the one to rank with marked."""
        self.of(chosen)
        return [
            TriedChoice(choice, result.value, result.held_out, result.own_language, chosen=choice == chosen)
            for choice, (result, _) in self._tried.items()
        ]

    def _try(self, choice: CalibrationChoice) -> tuple[TriedChoice, FloatArray]:
        """A choice's result, and its (topics,) values."""
        if choice not in self._tried:
            scores = self._scores(choice)
            values = self._values(scores)
            deciding, held_out = float(values[::2].mean()), float(values[1::2].mean())
            self._tried[choice] = TriedChoice(choice, deciding, held_out, self._own_language(scores)), values
        return self._tried[choice]

    def _own_language(self, scores: FloatArray) -> float:
        """Share of the query's language in its first hits without the answers, whose ranks are not due to chance."""
        evidence, depth = self._evidence, len(self._languages)
        shares = []
        for query_scores, answers, lang in zip(scores, evidence.relevant, evidence.query_langs, strict=True):
            first = largest(query_scores, depth + len(answers))
            hits = [row for row in first if row not in answers and np.isfinite(query_scores[row])][:depth]
            shares.append(own_language_share(evidence.langs[hits].tolist(), lang, depth))
        return float(np.mean(shares))

    def _values(self, scores: FloatArray) -> FloatArray:
        """(topics,) average precision, the mean over a topic's queries.

        For titles the value is the reciprocal rank of the own document among the documents of its language.
        """
        from ir_measures import AP, RR, Qrel  # noqa: PLC0415 - half a second

        evidence = self._evidence
        if evidence.kind == "titles":
            own_language = evidence.langs[None, :] == np.array(evidence.query_langs)[:, None]
            scores = np.where(own_language, scores, np.float32(-np.inf))
        orders = [largest(query_scores, _DEPTH) for query_scores in scores]
        run = Run(
            "probe",
            {
                str(query): [(str(row), float(scores[query, row])) for row in order if np.isfinite(scores[query, row])]
                for query, order in enumerate(orders)
            },
        )
        qrels = [Qrel(str(query), str(row), 1) for query, rows in enumerate(evidence.relevant) for row in rows]
        measure = RR if evidence.kind == "titles" else AP
        topics = score(run, qrels, [measure], {str(query) for query in range(len(scores))}).topics
        values = np.array([topics[str(query)][str(measure)] for query in range(len(scores))])
        mean: FloatArray = (np.bincount(self._topics, values) / np.bincount(self._topics)).astype(np.float32)
        return mean

    def _scores(self, choice: CalibrationChoice) -> FloatArray:
        cosines, fwd, bwd = self._compare(choice.rank, centring(choice.balance), choice.weights)
        return margin(cosines, fwd, bwd, choice.margin, exponent(choice.balance))

    def _compare(
        self, rank: int, share: float, weights: tuple[float, ...]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(q, n) cosines, ``fwd`` and ``bwd``; a pseudo-query's own column of the bank is left out of ``bwd``."""
        if (rank, share, weights) in self._compared:
            return self._compared[rank, share, weights]
        evidence = self._evidence
        calibration = self._widest.with_rank(rank) if rank else self._by_means
        calibration = calibration.with_weights(weights) if weights else calibration
        documents = np.empty_like(evidence.vectors)
        for lang in self._languages:
            rows = evidence.langs == lang
            vectors = evidence.vectors[rows]
            documents[rows] = calibration.correct_documents(vectors, {lang: slice(0, len(vectors))}, share)
        cosines = np.empty((len(evidence.queries), len(documents)), dtype=np.float32)
        bwd = np.empty_like(cosines)
        for lang in dict.fromkeys(evidence.query_langs):
            of_lang = np.array([query_lang == lang for query_lang in evidence.query_langs])
            queries = calibration.correct_queries(evidence.queries[of_lang], lang, share)
            cosines[of_lang] = calibration.vector_parts.cosines(documents, queries).T
            bank = calibration.bank(lang, share)
            bank_cosines = calibration.vector_parts.cosines(documents, bank.vectors)
            bank.exclude_sources(bank_cosines, evidence.doc_ids)
            bwd[of_lang] = without_itself(bank_cosines, evidence.bank_rows[of_lang], bank.neighbours)
        excluded = np.flatnonzero(evidence.excluded_rows >= 0)
        cosines[excluded, evidence.excluded_rows[excluded]] = -np.inf
        languages = (evidence.langs == lang for lang in self._languages)
        fwd = language_neighbourhoods(cosines, languages, calibration.neighbours)
        self._compared[rank, share, weights] = cosines, fwd, bwd
        return cosines, fwd, bwd


def without_itself(near: FloatArray, rows: npt.NDArray[np.intp], k: int) -> FloatArray:
    """(q, n) mean of the k largest of each document's row, for each query without the query's own column.

    Args:
        near: (n, bank) cosines of documents and pseudo-queries; −∞ excludes a pair.
        rows: (q,) column of each query in the bank; −1 if the query is not in the bank.
        k: number of pseudo-queries in the mean.
    """
    if near.shape[1] <= k:
        columns = np.arange(near.shape[1])
        return np.stack([neighbourhood(np.where(columns == row, np.float32(-np.inf), near), k) for row in rows])
    nearest = -np.partition(-near, k, axis=1)[:, : k + 1]
    following, k_nearest = nearest[:, k], nearest[:, :k]
    least, mean = k_nearest.min(axis=1), neighbourhood(k_nearest, k)
    own = np.where(rows[:, None] >= 0, near[:, rows].T, np.float32(-np.inf))
    means: FloatArray = np.where(own >= least, mean + (following - own) / np.float32(k), mean).astype(np.float32)
    return means
