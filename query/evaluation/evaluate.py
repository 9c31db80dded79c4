"""Evaluate a collection: rank every topic, score the rankings, log them, compare them with another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.devices import Device
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from onnx_export.models import taught_shares
from query.evaluation import evaluation_log
from query.evaluation.measures import JUDGED, Scores
from query.evaluation.run_settings import default_tag, maps_of
from query.evaluation.scored_runs import EvaluationPlan, ScoredRuns, rank_and_score, score_external, within_languages
from query.evaluation.significance import Comparison, compare, corrected
from query.evaluation.topic_set import TopicSet
from query.evaluation.trec_run import Run
from query.ranking.query_encoder import encoders_with_methods
from query.ranking.search_choice import RankingOptions
from query.ranking.searcher import Searcher


@dataclass(frozen=True)
class EarlierRun:
    """A logged run with its scores by topic and measure."""

    run: evaluation_log.LoggedRun
    scores: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that was logged.

    Attributes:
        compared_with: the runs to compare with: a run from a TREC file, without documents in other languages than those
            searched, or logged runs; none if nothing was named.
    """

    number: int
    setup: evaluation_log.Setup
    plan: EvaluationPlan
    topic_set: TopicSet
    scored_runs: ScoredRuns
    compared_with: Run | Sequence[EarlierRun] | None

    @property
    def means(self) -> Mapping[str, float]:
        """Mean of each measure over the topics of the main run: over all languages of topics, or the only one."""
        return self.scored_runs.main.scores.means

    @property
    def taught(self) -> Mapping[str, float]:
        """Share of the relevant documents that taught an encoder, by the encoder's name."""
        return dict(self.setup.settings.get("taught", {}))

    def comparisons(self) -> list[Comparison]:
        """Compare the runs with the earlier runs of the same names, or else the main run with the first earlier run.

        Raises:
            BadInput: the runs to compare with have none of the topics or none of the measures.
        """
        if self.compared_with is None:
            return []
        measures = [str(measure) for measure in self.plan.measures if str(measure) != JUDGED]
        main = self.scored_runs.main
        if isinstance(self.compared_with, Run):
            scores = self._scored(self.compared_with)
            name = f"{self.number}.{main.name}"
            return corrected(
                compare(self.compared_with.tag, scores.topics, name, main.scores.topics, measures, topic=main.topic)
            )
        by_name = {scored_run.name: scored_run for scored_run in self.scored_runs.runs}
        matched_runs = [
            (earlier, by_name[earlier.run.name]) for earlier in self.compared_with if earlier.run.name in by_name
        ]
        comparisons: list[Comparison] = []
        for earlier, scored_run in matched_runs or [(self.compared_with[0], main)]:
            run = earlier.run
            shared = [measure for measure in measures if measure in run.means]
            if not shared:
                raise BadInput(f"run {run.id} has none of these measures; choose one of {', '.join(run.means)}")
            name = f"{self.number}.{scored_run.name}"
            comparisons += compare(
                run.id, earlier.scores, name, scored_run.scores.topics, shared, topic=scored_run.topic
            )
        return corrected(comparisons)

    def _scored(self, run: Run) -> Scores:
        return score_external(run, self.topic_set.topics, self.scored_runs.qrels, self.plan.measures)


def evaluate_collection(
    collection: str,
    topic_set: TopicSet,
    settings: Settings,
    plan: EvaluationPlan,
    *,
    ranking: RankingOptions | None = None,
    compared_with: str = "",
    device: Device = "auto",
    console: Console | None = None,
) -> Evaluation:
    """Rank every topic against a collection, score the rankings, and log them.

    The encoder's name and how it ranks replace an empty tag of the plan; the options ``ranking`` replace those of the
    calibration. The results are compared with ``compared_with``, a logged run or a TREC run file. ``device`` is where
    topics are encoded.

    Raises:
        BadInput: there is no such collection or run, or no topic has a relevant document.
        StoreError: the log can't be written.
    """
    console = console or Console(quiet=True)
    warn_of_undetermined(topic_set, console)
    with open_database(settings.database) as engine:
        evaluation_log.require_writable(engine)
        earlier = earlier_runs(engine, compared_with) if compared_with else None
        with Searcher.open(
            collection, settings, device=device, ranking=ranking, console=console, to=plan.to
        ) as searcher:
            to = plan.to and searcher.targets(plan.to)
            plan = replace(
                plan, tag=plan.tag or default_tag(searcher, to, named=bool(ranking and ranking.calibration)), to=to
            )
            with console.progress("evaluating", sum(map(len, topic_set.topics.values())), "topics") as advance:
                scored_runs = rank_and_score(searcher, topic_set.topics, topic_set.qrels, plan, advance)
            row = collections.find(engine, collection)
            encoders = encoders_with_methods(row, searcher.calibration) if row else []
            taught = taught_shares(encoders, lambda: _relevant_texts(searcher, topic_set, scored_runs), console)
            setup = _setup(searcher, plan, topic_set, taught)
            warn_of_other_judgements(earlier, setup, console)
            if isinstance(earlier, Run) and plan.to is not None:
                earlier = within_languages(earlier, searcher, searcher.targets(plan.to))
        number = evaluation_log.log(engine, setup, scored_runs.runs)
    return Evaluation(number, setup, plan, topic_set, scored_runs, earlier)


def _relevant_texts(searcher: Searcher, topic_set: TopicSet, scored_runs: ScoredRuns) -> list[str]:
    """Hashes of the texts of the documents that are relevant for the topics."""
    qids = {topic.qid for topics in topic_set.topics.values() for topic in topics}
    doc_ids = {qrel.doc_id for qrel in scored_runs.qrels if qrel.relevance > 0 and qrel.query_id in qids}
    stamps = searcher.store.stamps(searcher.stored_model, sorted(doc_ids))
    return [stamp.text_hash for stamp in stamps.values()]


def warn_of_undetermined(topic_set: TopicSet, console: Console) -> None:
    """Warn if topics name no language."""
    if UNDETERMINED in topic_set.topics:
        console.warn("there are topics that name no language; say which with --lang en")


def warn_of_other_judgements(
    earlier: Run | list[EarlierRun] | None, setup: evaluation_log.Setup, console: Console
) -> None:
    """Warn if an earlier run was scored by other judgements than those of a setup."""
    if isinstance(earlier, list):
        run = earlier[0].run
        if run.judged_by != (setup.qrels_hash, setup.judged_languages):
            console.warn(f"run {run.id} was scored by other qrels or another --to; part of the difference is theirs")


def _setup(
    searcher: Searcher, plan: EvaluationPlan, topic_set: TopicSet, taught: Mapping[str, float]
) -> evaluation_log.Setup:
    plan_settings = {
        "fields": list(plan.fields),
        "to": plan.to and list(plan.to),
        "depth": plan.depth,
        "maps": maps_of(searcher),
        "taught": dict(taught),
    }
    return evaluation_log.Setup(
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


def earlier_runs(engine: sa.Engine, name: str) -> Run | list[EarlierRun]:
    """The run of a TREC file, or the logged runs that an id stands for, read before any topic is ranked."""
    if Path(name).is_file():
        return Run.read_trec(name)
    named_run = evaluation_log.find(engine, name)
    runs = [named_run]
    if "." not in name:
        runs = [
            run for run in evaluation_log.members(engine, named_run.evaluation) if run.kind in {"language", "pooled"}
        ]
    return [EarlierRun(run, evaluation_log.scores(engine, run.id)) for run in runs]
