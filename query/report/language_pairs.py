"""Query language × document language: how well each finds the other, or how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from query.evaluation import history
from query.evaluation.history import LoggedRun
from query.evaluation.trec_run import Run
from query.report.first_hits import FirstHits

if TYPE_CHECKING:
    from ir_measures import Qrel

TOPICS = 1_000
"""Topics looked at over all query languages, at most; of many languages a few more."""
_EACH = 10


@dataclass(frozen=True)
class PairTable:
    """A number for each pair of a query's and a document's language.

    Attributes:
        queries: languages of queries, the rows.
        documents: languages of documents, the columns.
        values: (rows, columns) 0 to 1; NaN where nothing could be counted.
    """

    queries: Sequence[str]
    documents: Sequence[str]
    values: npt.NDArray[np.float64]

    def means(self) -> tuple[float, float]:
        """Mean over pairs of one language with itself, and over the others; NaN where there are none."""
        same = np.array([[row == column for column in self.documents] for row in self.queries], dtype=np.bool_)
        same = same.reshape(self.values.shape)
        return mean_counted(self.values[same]), mean_counted(self.values[~same])


def mean_counted(values: npt.NDArray[np.float64]) -> float:
    """Mean of what could be counted; NaN where nothing could."""
    counted = values[np.isfinite(values)]
    return float(counted.mean()) if len(counted) else float("nan")


def logged_rankings(engine: sa.Engine, evaluation: int, depth: int | None = None) -> dict[str, dict[str, list[str]]]:
    """An evaluation's rankings over all target languages: document ids by topic id, by topic language.

    Of many topics a random part, the same in every language.

    Args:
        engine: the database.
        evaluation: its number.
        depth: documents a topic; all that were logged unless given.
    """
    runs = [run for run in history.members(engine, evaluation) if run.kind == "language"]
    each = max(_EACH, TOPICS // max(len(runs), 1))
    return {run.lang: _rankings(engine, run, each, depth) for run in runs}


def _rankings(engine: sa.Engine, run: LoggedRun, most: int, depth: int | None) -> dict[str, list[str]]:
    by_topic: dict[str, list[str]] = {}
    for line in history.export(engine, run.id):
        lines = by_topic.setdefault(line.split(" ", 1)[0], [])
        if depth is None or len(lines) < depth:
            lines.append(line)
    qids = sorted(by_topic)
    chosen = [qids[at] for at in np.random.default_rng(0).permutation(len(qids))[:most]]
    kept = Run.from_trec(chain.from_iterable(by_topic[qid] for qid in chosen), run.id)
    return {qid: [doc_id for doc_id, _ in ranking] for qid, ranking in kept.rankings.items()}


def map_by_pair(
    rankings: Mapping[str, Mapping[str, Sequence[str]]], qrels: Iterable[Qrel], langs: Mapping[str, str]
) -> PairTable:
    """MAP of each pair: the relevant documents of one language among all that are relevant in none.

    Relevant documents of the other languages are left out of a ranking, so that they neither help nor stand in the way;
    irrelevant ones of every language compete. Topics with a relevant document of the pair's language count.

    Args:
        rankings: document ids by topic id, by topic language.
        qrels: the judgements.
        langs: languages of the judged documents; those that are missing don't count.
    """
    relevant: dict[str, dict[str, str]] = {}
    for qrel in qrels:
        if qrel.relevance > 0 and qrel.doc_id in langs:
            relevant.setdefault(qrel.query_id, {})[qrel.doc_id] = langs[qrel.doc_id]
    documents = sorted({lang for judged in relevant.values() for lang in judged.values()})
    values = np.full((len(rankings), len(documents)), np.nan)
    for row, by_topic in enumerate(rankings.values()):
        precisions: dict[str, list[float]] = {}
        for qid, doc_ids in by_topic.items():
            for lang, precision in average_precisions(doc_ids, relevant.get(qid, {})).items():
                precisions.setdefault(lang, []).append(precision)
        for column, lang in enumerate(documents):
            if lang in precisions:
                values[row, column] = np.mean(precisions[lang])
    return PairTable(list(rankings), documents, values)


def average_precisions(doc_ids: Sequence[str], relevant: Mapping[str, str]) -> dict[str, float]:
    """Average precision for each language of the relevant documents, those of the others left out.

    Args:
        doc_ids: the ranking, best first.
        relevant: language of each relevant document, by id; what is not in the ranking counts as missed.
    """
    gained = dict.fromkeys(relevant.values(), 0.0)
    found = dict.fromkeys(gained, 0)
    irrelevant = 0
    for doc_id in doc_ids:
        lang = relevant.get(doc_id)
        if lang is None:
            irrelevant += 1
            continue
        found[lang] += 1
        gained[lang] += found[lang] / (irrelevant + found[lang])
    total = list(relevant.values())
    return {lang: gained[lang] / total.count(lang) for lang in sorted(gained)}


def shares_by_pair(hits: FirstHits, documents: Sequence[str]) -> PairTable:
    """Share of the first hits that are in each language, by language of the query; a row sums to 1.

    Args:
        hits: of some queries.
        documents: languages of documents.
    """
    queries = sorted(set(hits.query_langs))
    values = np.full((len(queries), len(documents)), np.nan)
    for row, lang in enumerate(queries):
        of_lang = (codes for other, codes in zip(hits.query_langs, hits.hit_langs, strict=True) if other == lang)
        found = list(chain.from_iterable(of_lang))
        if found:
            values[row] = [found.count(code) / len(found) for code in documents]
    return PairTable(queries, list(documents), values)
