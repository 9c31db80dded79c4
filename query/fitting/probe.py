"""The probe: which rank, margin and balance a collection is ranked with, decided by what is known of it.

With judgements, or documents that share a ``concept``, settings are compared by MAP on half of the topics and the
choice is reported on the other half. With neither, nothing is balanced where a linear classifier can't tell the
languages apart; else the smallest balance is taken that brings the share of own-language neighbours near the fair one,
as long as titles still find the rest of their own documents.

Documents are compared by their vectors alone: passages raise every setting and move the best one little
(docs/methods.md), and would take the time of the search itself for each.
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
from query.calibration.margin import MARGINS, centring, exponent, margin, neighbourhood
from query.calibration.setting import DEFAULT, Setting, TriedSetting
from query.evaluation.fairness import own_language_share
from query.evaluation.measures import evaluate
from query.evaluation.trec_run import Run
from query.fitting.evidence import Evidence
from query.fitting.separability import Separability
from query.fitting.statistics import CalibrationSamples, fit_statistics

RANKS = (0, 1, 2, 4, 8)
BALANCES = (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
NEAR_FAIR = 0.2
"""How far from the fair share towards nothing but the own language neighbours may stay, where nothing else decides."""
_LOST = 0.02
_DEPTH = 100


UNBALANCED = Setting(balance=0.0)


def probe(
    samples: CalibrationSamples, model: str, evidence: Evidence, apart: Separability | None = None
) -> tuple[Setting, list[TriedSetting]]:
    """The setting to rank with, and the table it was chosen by.

    Args:
        samples: of the documents and the bank.
        model: whose vectors.
        evidence: to decide by.
        apart: how well languages are told apart; only titles are asked together with it.
    """
    trial = _Trial(samples, model, evidence)
    if evidence.kind != "titles":
        setting = _by_relevance(trial)
    else:
        setting = UNBALANCED if apart and apart.hidden else _by_neighbours(trial)
    return setting, trial.table(setting)


def _by_relevance(trial: _Trial) -> Setting:
    """One part after the other, each kept as it is unless another is better by more than chance gives."""
    best = trial.better(DEFAULT, [replace(DEFAULT, rank=rank) for rank in trial.ranks])
    best = trial.better(best, [replace(best, margin=form) for form in MARGINS])
    best = trial.better(best, [replace(best, balance=balance) for balance in BALANCES])
    return trial.better(best, [replace(best, weights=weights) for weights in trial.weightings])


def _by_neighbours(trial: _Trial) -> Setting:
    """The smallest balance that is near fair, of those that lose no titles; the default where none is."""
    settings = [Setting(balance=balance) for balance in BALANCES if balance <= DEFAULT.balance]
    tried = {setting: trial.of(setting) for setting in settings}
    first = tried[settings[0]]
    for setting, one in tried.items():
        bias = (one.own_language - trial.fair) / (1.0 - trial.fair) if trial.fair < 1.0 else 0.0
        if bias <= NEAR_FAIR and one.value >= first.value - _LOST:
            return setting
    return DEFAULT


class _Trial:
    """Ranks the evidence's pool by one setting after another; what settings share is computed once.

    Attributes:
        fair: share of the first hits that would be in the query's language if languages played no part.
    """

    def __init__(self, samples: CalibrationSamples, model: str, evidence: Evidence) -> None:
        self._samples, self._model, self._evidence = samples, model, evidence
        self._languages = list(samples.documents)
        self._compared: dict[tuple[int, float, tuple[float, ...]], tuple[FloatArray, FloatArray, FloatArray]] = {}
        self._tried: dict[Setting, tuple[TriedSetting, FloatArray]] = {}
        self.fair = float(np.mean([(evidence.langs == lang).mean() for lang in evidence.query_langs]))
        self._row = {doc_id: row for row, doc_id in enumerate(evidence.doc_ids)}
        topics = {topic: at for at, topic in enumerate(dict.fromkeys(evidence.topics))}
        self._topics = np.array([topics[topic] for topic in evidence.topics])

    @cached_property
    def _by_means(self) -> Calibration:
        return fit_statistics(self._samples, self._model)

    @cached_property
    def _widest(self) -> Calibration:
        return fit_statistics(self._samples, self._model, rank=max(self.ranks))

    @property
    def ranks(self) -> list[int]:
        """Ranks to try: of what has as many numbers, nothing would be left."""
        narrowest = min(self._by_means.parts.widths)
        return [rank for rank in RANKS if rank < narrowest]

    @property
    def weightings(self) -> list[tuple[float, ...]]:
        """Weights to try; the equal ones of one part are none."""
        parts = len(self._by_means.parts.widths)
        return weightings(parts) if parts > 1 else [()]

    def of(self, setting: Setting) -> TriedSetting:
        """What a setting gives."""
        return self._try(setting)[0]

    def better(self, best: Setting, others: Sequence[Setting]) -> Setting:
        """The best of others, where it is ahead on the deciding topics by more than the difference's standard error."""
        ahead = max(others, key=lambda other: self.of(other).value)
        gain = (self._try(ahead)[1] - self._try(best)[1])[::2]
        error = float(gain.std()) / max(len(gain), 1) ** 0.5
        return ahead if float(gain.mean()) > error else best

    def table(self, chosen: Setting) -> list[TriedSetting]:
        """All that was tried, the chosen one marked."""
        self.of(chosen)
        return [
            TriedSetting(setting, one.value, one.held_out, one.own_language, chosen=setting == chosen)
            for setting, (one, _) in self._tried.items()
        ]

    def _try(self, setting: Setting) -> tuple[TriedSetting, FloatArray]:
        if setting not in self._tried:
            scores = self._scores(setting)
            values = self._values(scores)
            deciding, held_out = float(values[::2].mean()), float(values[1::2].mean())
            self._tried[setting] = TriedSetting(setting, deciding, held_out, self._own_language(scores)), values
        return self._tried[setting]

    def _own_language(self, scores: FloatArray) -> float:
        """Share of the query's language in its first hits, answers left out: they are not where chance put them."""
        evidence, depth = self._evidence, len(self._languages)
        shares = []
        for one, answers, lang in zip(scores, evidence.relevant, evidence.query_langs, strict=True):
            first = largest(one, depth + len(answers))
            hits = [row for row in first if row not in answers and np.isfinite(one[row])][:depth]
            shares.append(own_language_share(evidence.langs[hits].tolist(), lang, depth))
        return float(np.mean(shares))

    def _values(self, scores: FloatArray) -> FloatArray:
        """(topics,) average precision, the mean over a topic's queries.

        For titles it is the reciprocal rank of the own document among those of its language.
        """
        from ir_measures import AP, RR, Qrel  # noqa: PLC0415 - half a second

        evidence = self._evidence
        if evidence.kind == "titles":
            own = evidence.langs[None, :] == np.array(evidence.query_langs)[:, None]
            scores = np.where(own, scores, np.float32(-np.inf))
        orders = _orders(scores, _DEPTH)
        run = Run(
            "probe",
            {
                str(query): [(str(row), float(scores[query, row])) for row in order if np.isfinite(scores[query, row])]
                for query, order in enumerate(orders)
            },
        )
        qrels = [Qrel(str(query), str(row), 1) for query, rows in enumerate(evidence.relevant) for row in rows]
        measure = RR if evidence.kind == "titles" else AP
        topics = evaluate(run, qrels, [measure], {str(query) for query in range(len(scores))}).topics
        values = np.array([topics[str(query)][str(measure)] for query in range(len(scores))])
        mean: FloatArray = (np.bincount(self._topics, values) / np.bincount(self._topics)).astype(np.float32)
        return mean

    def _scores(self, setting: Setting) -> FloatArray:
        cosines, fwd, bwd = self._compare(setting.rank, centring(setting.balance), setting.weights)
        return margin(cosines, fwd, bwd, setting.margin, exponent(setting.balance))

    def _compare(
        self, rank: int, share: float, weights: tuple[float, ...]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(q, n) cosines and both neighbourhoods; a pseudo-query's own place in the bank is left out of ``bwd``."""
        if (rank, share, weights) in self._compared:
            return self._compared[rank, share, weights]
        evidence = self._evidence
        chosen = self._widest.with_rank(rank) if rank else self._by_means
        chosen = chosen.with_weights(weights) if weights else chosen
        documents = np.empty_like(evidence.vectors)
        for lang in self._languages:
            documents[evidence.langs == lang] = chosen.documents(evidence.vectors[evidence.langs == lang], lang, share)
        cosines = np.empty((len(evidence.queries), len(documents)), dtype=np.float32)
        fwd, bwd = np.empty_like(cosines), np.empty_like(cosines)
        for lang in dict.fromkeys(evidence.query_langs):
            asked = np.array([other == lang for other in evidence.query_langs])
            queries = chosen.queries(evidence.queries[asked], lang, share)
            cosines[asked] = chosen.parts.cosines(documents, queries).T
            bank, sources = chosen.bank(lang, share)
            near = chosen.parts.cosines(documents, bank)
            for column, doc_id in enumerate(sources):  # a title must not meet its own document
                if doc_id in self._row:
                    near[self._row[doc_id], column] = -np.inf
            k = min(chosen.neighbours, max(1, len(bank) // 8))
            bwd[asked] = without_itself(near, evidence.bank_rows[asked], k)
        apart = np.flatnonzero(evidence.apart >= 0)
        cosines[apart, evidence.apart[apart]] = -np.inf
        for lang in self._languages:
            fwd[:, evidence.langs == lang] = neighbourhood(cosines[:, evidence.langs == lang], chosen.neighbours)[
                :, None
            ]
        self._compared[rank, share, weights] = cosines, fwd, bwd
        return cosines, fwd, bwd


def without_itself(near: FloatArray, rows: npt.NDArray[np.intp], k: int) -> FloatArray:
    """Mean of the k largest of each document's row, for each query without the query's own column: (q, n).

    Args:
        near: (n, bank) cosines of documents and pseudo-queries; −∞ for what doesn't count.
        rows: (q,) columns of the queries; −1 for one that has none.
        k: how many.
    """
    if near.shape[1] <= k:
        columns = np.arange(near.shape[1])
        return np.stack([neighbourhood(np.where(columns == row, np.float32(-np.inf), near), k) for row in rows])
    nearest = -np.partition(-near, k, axis=1)[:, : k + 1]
    following, among = nearest[:, k], nearest[:, :k]
    least, mean = among.min(axis=1), neighbourhood(among, k)
    own = np.where(rows[:, None] >= 0, near[:, rows].T, np.float32(-np.inf))
    result: FloatArray = np.where(own >= least, mean + (following - own) / np.float32(k), mean).astype(np.float32)
    return result


def _orders(scores: FloatArray, depth: int) -> list[npt.NDArray[np.intp]]:
    return [largest(one, depth) for one in scores]
