"""Tables of query language × document language: the share of the first hits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from encoders.document import unit_rows
from indexer.stores.contract import VectorStore
from query.calibration.calibration import Calibration
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import LoggedRun
from query.measures.fairness import own_language_share
from query.ranking.fair_ranker import FairRanker
from query.trec_files.trec_run import Run

TOPICS = 1_000
"""Most topics over all query languages, except that every language has at least ``_EACH``."""
_EACH = 10
QUERIES = 128
"""Most pseudo-queries over all languages, except that every language has at least ``_EACH_QUERIES``."""
_EACH_QUERIES = 4


@dataclass(frozen=True)
class PairTable:
    """A value for each pair of query language and document language."""

    queries: Sequence[str]  # languages of the queries, the rows
    documents: Sequence[str]  # languages of the documents, the columns
    values: npt.NDArray[np.float64]  # (rows, columns) 0 to 1; NaN where a pair has no value

    def means(self) -> tuple[float, float]:
        """Mean over pairs of equal languages, and mean over the other pairs; NaN where no pair has a value."""
        is_same = np.array(self.queries, np.str_)[:, None] == np.array(self.documents, np.str_)
        return mean_counted(self.values[is_same]), mean_counted(self.values[~is_same])


def mean_counted(values: npt.NDArray[np.float64]) -> float:
    """Mean of the finite values; NaN without any."""
    counted = values[np.isfinite(values)]
    return float(counted.mean()) if len(counted) else float("nan")


def logged_rankings(engine: sa.Engine, evaluation: int, depth: int) -> dict[str, dict[str, list[str]]]:
    """An evaluation's rankings: document ids, up to ``depth``, by topic id, by topic language.

    Too many topics are sampled at random, alike in every language.
    """
    runs = [run for run in evaluation_log.members(engine, evaluation) if run.kind == "language"]
    topics_per_language = max(_EACH, TOPICS // max(len(runs), 1))
    return {run.lang: _rankings(engine, run, topics_per_language, depth) for run in runs}


def _rankings(engine: sa.Engine, run: LoggedRun, topic_limit: int, depth: int) -> dict[str, list[str]]:
    lines_by_topic: dict[str, list[str]] = {qid: [] for qid in run.without_hits}
    for line in evaluation_log.export(engine, run.id):
        lines = lines_by_topic.setdefault(line.split(" ", 1)[0], [])
        if len(lines) < depth:
            lines.append(line)
    qids = sorted(lines_by_topic)
    chosen = [qids[position] for position in np.random.default_rng(0).permutation(len(qids))[:topic_limit]]
    run_of_chosen = Run.from_trec(chain.from_iterable(lines_by_topic[qid] for qid in chosen), run.id)
    return {qid: [doc_id for doc_id, _ in run_of_chosen.rankings.get(qid, ())] for qid in chosen}


@dataclass(frozen=True)
class FirstHits:
    """Languages of q queries and of their first hits."""

    query_langs: Sequence[str]  # (q,) language of each query
    hit_langs: Sequence[Sequence[str]]  # (q,) languages of each query's hits, best first

    def own_language(self, depth: int) -> float:
        """Share of the first hits in the query's language, 0 to 1: the mean over queries, 0 without queries."""
        of_queries = zip(self.query_langs, self.hit_langs, strict=True)
        return float(np.mean([own_language_share(hits, lang, depth) for lang, hits in of_queries] or [0.0]))


def first_hits(store: VectorStore, calibration: Calibration, balance: float, depth: int) -> FirstHits:
    """First ``depth`` hits of sampled pseudo-queries without their document, by vectors; balance 0 is plain cosine."""
    ranker, targets = FairRanker(store, calibration, balance, passages=False), sorted(store.count())
    queries_per_language = max(_EACH_QUERIES, QUERIES // max(len(calibration.languages), 1))
    generator = np.random.default_rng(0)
    query_langs: list[str] = []
    hit_langs: list[list[str]] = []
    for lang, language in calibration.languages.items():
        rows = np.sort(generator.permutation(len(language.bank))[:queries_per_language])
        if not len(rows):
            continue
        queries = unit_rows(language.bank[rows])
        for row, ranking in zip(rows, ranker.rank(queries, lang, targets, depth + 1), strict=True):
            hits = zip(ranking.doc_ids, ranking.langs, strict=True)
            query_langs.append(lang)
            hit_langs.append([code for doc_id, code in hits if doc_id != language.sources[row]][:depth])
    return FirstHits(query_langs, hit_langs)


def shares_by_pair(hits: FirstHits, documents: Sequence[str]) -> PairTable:
    """Share of the first hits in each document language, by query language; a row sums to 1."""
    queries = sorted(set(hits.query_langs))
    values = np.full((len(queries), len(documents)), np.nan)
    for row, lang in enumerate(queries):
        of_queries = zip(hits.query_langs, hits.hit_langs, strict=True)
        if hit_langs := [code for query_lang, codes in of_queries if query_lang == lang for code in codes]:
            values[row] = [hit_langs.count(code) / len(hit_langs) for code in documents]
    return PairTable(queries, list(documents), values)
