"""Systems of a paper's table in the evaluation log: runs with every topic's scores, as ``dragoman evaluate`` logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import EncoderSpec, short_hash
from papers.retrieval import RANKS
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import Setup
from query.evaluation.scored_runs import ScoredRun, pair_name
from query.measures.quality_measures import Scores, parse_measures, pooled
from query.trec_files.trec_run import Run, pack


@dataclass(frozen=True)
class System:
    """An encoder and a way to compare its vectors: a row or column of a table."""

    table: str  # name of the command, and of its task if it has several
    ranked_by: str  # how documents are ranked, such as ``cosine``
    encoder: EncoderSpec
    documents: Mapping[str, int]  # number of documents by language
    runs: Sequence[ScoredRun]
    topics: str  # names of the topics' files, or of the data
    topics_hash: str = ""  # hash of the topics' files; empty: of the topics' ids, which name the relevant documents
    qrels_hash: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # further settings, by the names that people read

    def log(self, engine: sa.Engine) -> int:
        """Log the runs as an evaluation without a collection; returns its number."""
        ids = short_hash(*sorted(f"{run.name} {qid}" for run in self.runs for qid in run.scores.topics))
        settings = {
            "table": self.table,
            "ranked_by": self.ranked_by,
            "encoder": self.encoder.name,
            "method": self.encoder.method,
            "languages": dict(self.documents),
            "targets": len(self.documents),
            "of_table": dict(self.settings),
        }
        setup = Setup(
            collection="",
            tag=tag(self.encoder, self.ranked_by),
            model=self.encoder.model,
            build=self.encoder.build,
            space="",
            settings=settings,
            topics=self.topics,
            topics_hash=self.topics_hash or ids,
            qrels_hash=self.qrels_hash or ids,
        )
        return evaluation_log.log(engine, setup, self.runs)


def tag(encoder: EncoderSpec, ranked_by: str) -> str:
    """The name of a system in TREC files."""
    return f"{encoder.name}-{encoder.method}-{ranked_by.replace(' ', '-')}"


def runs_of_pairs(scores: Mapping[tuple[str, str], Scores], rankings: Mapping[tuple[str, str], Run]) -> list[ScoredRun]:
    """A run for each pair of languages, of topics and documents, and a pooled run if there are several pairs.

    A topic of the pooled run is ``qid.de-fi``. Pairs without a ranking have scores alone.
    """
    runs = [
        ScoredRun(
            pair_name(*langs), "pair", langs[0], pair_scores, pack(rankings[langs]) if langs in rankings else None
        )
        for langs, pair_scores in scores.items()
    ]
    if len(runs) > 1:
        names = next(iter(scores.values())).means
        measures = [measure for measure in parse_measures(names) if str(measure) in names]
        runs.append(ScoredRun("all", "pooled", "mul", pooled({run.name: run.scores for run in runs}, measures), None))
    return runs


def rank_scores(ranks: Mapping[str, float]) -> Scores:
    """Success@k for k of ``RANKS`` and RR, by the rank of each topic's first relevant document; it may be infinite."""
    return mean_scores(
        {qid: {**{f"Success@{k}": float(rank <= k) for k in RANKS}, "RR": 1.0 / rank} for qid, rank in ranks.items()}
    )


def mean_scores(topics: Mapping[str, Mapping[str, float]]) -> Scores:
    """Scores with the mean over all topics, which have the same measures."""
    measures = next(iter(topics.values()), {})
    means = {measure: float(np.mean([values[measure] for values in topics.values()])) for measure in measures}
    return Scores(means, topics)


def say_logged(numbers: Sequence[int], console: Console) -> None:
    """Say by which numbers evaluations were logged."""
    if numbers:
        span = f"evaluation {numbers[0]}" if len(numbers) == 1 else f"evaluations {numbers[0]} to {numbers[-1]}"
        console.say(f"Logged as {span}; every topic's scores: dragoman runs show {numbers[0]}")
