"""Evaluate a collection: ask every topic, score the rankings, log them, compare them with another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from indexer.ledger.database import opened
from indexer.settings import Settings
from query.evaluation import history
from query.evaluation.experiment import EvaluationPlan, Result, experiment, score_external
from query.evaluation.measures import JUDGED, Scores
from query.evaluation.significance import Comparison, compare, corrected
from query.evaluation.topic_set import TopicSet
from query.evaluation.trec_run import Run
from query.ranking.options import RankingOptions
from query.ranking.searcher import Searcher


@dataclass(frozen=True)
class EarlierRun:
    """A logged run with its topics' scores.

    Attributes:
        run: as it was logged.
        scores: by topic and measure.
    """

    run: history.LoggedRun
    scores: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that was logged.

    Attributes:
        number: in the log.
        setup: what was asked, of what, with which settings.
        plan: how it was evaluated.
        topic_set: topics and judgements.
        result: runs and their scores.
        baseline: what it is compared with: a run from elsewhere, or logged runs; none where nothing was named.
    """

    number: int
    setup: history.Setup
    plan: EvaluationPlan
    topic_set: TopicSet
    result: Result
    baseline: Run | Sequence[EarlierRun] | None

    def comparisons(self) -> list[Comparison]:
        """Compare the runs with those of the same name, or the main run with the only one there is.

        Raises:
            BadInput: the other run has none of the topics or of the measures.
        """
        if self.baseline is None:
            return []
        measures = [str(measure) for measure in self.plan.measures if str(measure) != JUDGED]
        main = self.result.main
        if isinstance(self.baseline, Run):
            scores = self._scored(self.baseline)
            name = f"{self.number}.{main.name}"
            found = compare(self.baseline.tag, scores.topics, name, main.scores.topics, measures, topic=main.topic)
            return corrected(found)
        by_name = {outcome.name: outcome for outcome in self.result.outcomes}
        pairs = [(earlier, by_name[earlier.run.name]) for earlier in self.baseline if earlier.run.name in by_name]
        comparisons: list[Comparison] = []
        for earlier, outcome in pairs or [(self.baseline[0], main)]:
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
    """Ask every topic of a collection, score the rankings, and log them.

    Args:
        collection: its name.
        topic_set: topics and judgements.
        settings: where the collection and the log are.
        plan: how to evaluate; an empty tag is the encoder's name.
        ranking: how to rank, where it is not as the calibration has it.
        baseline: a logged run or a TREC run file to compare with; none if empty.
        console: where progress goes.

    Raises:
        BadInput: there is no such collection or run, or the judgements have nothing relevant for any topic.
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
    asked = {"fields": list(plan.fields), "to": plan.to and list(plan.to), "depth": plan.depth}
    return history.Setup(
        collection=searcher.collection,
        tag=plan.tag,
        model=searcher.spec.model,
        build=searcher.spec.build,
        space=searcher.space,
        settings={**searcher.describe(), **asked},
        topics=topic_set.name,
        topics_hash=topic_set.topics_hash,
        qrels_hash=topic_set.qrels_hash,
    )


def _baseline(engine: sa.Engine, name: str) -> Run | list[EarlierRun]:
    """The run of a TREC file, or the logged runs that an id may stand for, read before the work begins."""
    if Path(name).is_file():
        return Run.read_trec(name)
    named = history.find(engine, name)
    runs = [named]
    if "." not in name:
        runs = [run for run in history.members(engine, named.evaluation) if run.kind in {"language", "pooled"}]
    return [EarlierRun(run, history.scores(engine, run.id)) for run in runs]
