"""Evaluate a collection: rank every topic, score the rankings, log them, compare them with another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from indexer.collection.settings import Settings
from indexer.ledger.database import opened
from query.evaluation import history
from query.evaluation.experiment import EvaluationPlan, Result, experiment, score_external
from query.evaluation.measures import JUDGED, Scores
from query.evaluation.significance import Comparison, compare, corrected
from query.evaluation.topic_set import TopicSet
from query.evaluation.trec_run import Run
from query.ranking.choice import RankingOptions
from query.ranking.searcher import Searcher


@dataclass(frozen=True)
class EarlierRun:
    """A logged run with its scores by topic and measure."""

    run: history.LoggedRun
    scores: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that was logged.

    Attributes:
        baseline: what the runs are compared with: a run from a TREC file, or logged runs; none if nothing was named.
    """

    number: int
    setup: history.Setup
    plan: EvaluationPlan
    topic_set: TopicSet
    result: Result
    baseline: Run | Sequence[EarlierRun] | None

    def comparisons(self) -> list[Comparison]:
        """Compare the runs with the baseline's runs of the same names, or else the main run with its first run.

        Raises:
            BadInput: the baseline has none of the topics or none of the measures.
        """
        if self.baseline is None:
            return []
        measures = [str(measure) for measure in self.plan.measures if str(measure) != JUDGED]
        main = self.result.main
        if isinstance(self.baseline, Run):
            scores = self._scored(self.baseline)
            name = f"{self.number}.{main.name}"
            return corrected(
                compare(self.baseline.tag, scores.topics, name, main.scores.topics, measures, topic=main.topic)
            )
        by_name = {outcome.name: outcome for outcome in self.result.outcomes}
        matched_runs = [
            (earlier, by_name[earlier.run.name]) for earlier in self.baseline if earlier.run.name in by_name
        ]
        comparisons: list[Comparison] = []
        for earlier, outcome in matched_runs or [(self.baseline[0], main)]:
            run = earlier.run
            shared = [measure for measure in measures if measure in run.means]
            if not shared:
                raise BadInput(f"run {run.id} has none of these measures; choose one of {', '.join(run.means)}")
            name = f"{self.number}.{outcome.name}"
            comparisons += compare(run.id, earlier.scores, name, outcome.scores.topics, shared, topic=outcome.topic)
        return corrected(comparisons)

    def _scored(self, run: Run) -> Scores:
        return score_external(run, self.topic_set.topics, self.topic_set.qrels, self.plan.measures)


def evaluate_collection(
    collection: str,
    topic_set: TopicSet,
    settings: Settings,
    plan: EvaluationPlan,
    *,
    ranking: RankingOptions | None = None,
    baseline: str = "",
    console: Console | None = None,
) -> Evaluation:
    """Rank every topic against a collection, score the rankings, and log them.

    The encoder's name replaces an empty tag of the plan; the options ``ranking`` replace those of the calibration. The
    ``baseline`` is a logged run or a TREC run file to compare with.

    Raises:
        BadInput: there is no such collection or run, or no topic has a relevant document.
    """
    console = console or Console(quiet=True)
    if UNDETERMINED in topic_set.topics:
        console.warn("there are topics that name no language; say which with --lang en")
    with opened(settings.database) as engine:
        earlier = _baseline(engine, baseline) if baseline else None
        with Searcher.open(collection, settings, ranking=ranking, console=console) as searcher:
            plan = replace(plan, tag=plan.tag or searcher.spec.name)
            with console.progress("evaluating", sum(map(len, topic_set.topics.values())), "topics") as advance:
                result = experiment(searcher, topic_set.topics, topic_set.qrels, plan, advance)
            setup = _setup(searcher, plan, topic_set)
        number = history.log(engine, setup, result.outcomes)
    return Evaluation(number, setup, plan, topic_set, result, earlier)


def _setup(searcher: Searcher, plan: EvaluationPlan, topic_set: TopicSet) -> history.Setup:
    plan_settings = {"fields": list(plan.fields), "to": plan.to and list(plan.to), "depth": plan.depth}
    return history.Setup(
        collection=searcher.collection,
        tag=plan.tag,
        model=searcher.spec.model,
        build=searcher.spec.build,
        space=searcher.space,
        settings={**searcher.describe(), **plan_settings},
        topics=topic_set.name,
        topics_hash=topic_set.topics_hash,
        qrels_hash=topic_set.qrels_hash,
    )


def _baseline(engine: sa.Engine, name: str) -> Run | list[EarlierRun]:
    """The run of a TREC file, or the logged runs that an id stands for, read before any topic is ranked."""
    if Path(name).is_file():
        return Run.read_trec(name)
    named_run = history.find(engine, name)
    runs = [named_run]
    if "." not in name:
        runs = [run for run in history.members(engine, named_run.evaluation) if run.kind in {"language", "pooled"}]
    return [EarlierRun(run, history.scores(engine, run.id)) for run in runs]
