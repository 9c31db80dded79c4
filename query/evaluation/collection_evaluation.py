"""Evaluate a collection: rank every topic, score the rankings, log them, compare them with another run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console, values_of
from encoders.errors import BadInput
from encoders.machine.placement import Device
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, require_writable
from onnx_export.models import taught_shares
from query.evaluation import evaluation_log
from query.evaluation.foreign_scores import by_topic_language, score_foreign
from query.evaluation.pair_matrix import PairMatrix, PairRun, pair_matrix
from query.evaluation.run_scoring import languages_of
from query.evaluation.run_settings import default_tag
from query.evaluation.scored_runs import EvaluationPlan, Judgements, RunKind, ScoredRun, ScoredRuns
from query.evaluation.topic_ranking import rank_and_score, rounds
from query.measures.quality_measures import JUDGED
from query.measures.significance import Comparison, Topics, compare, corrected
from query.ranking.query_encoder import encoders_with_methods
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.trec_files.topic_set import TopicSet
from query.trec_files.trec_run import Run


@dataclass(frozen=True)
class EarlierRun:
    """A run that was scored before."""

    run: str  # id of a logged run, or the tag of a run file
    name: str  # the run's name in its evaluation
    measures: Sequence[str]  # names of its measures
    scores: Topics  # by topic id and measure
    # hash of its evaluation's qrels, and languages of the documents whose judgements counted there (none: all
    # languages); none: the judgements of the evaluation that it is compared with
    judged_by: tuple[str, list[str] | None] | None = None
    documents_in: list[str] | None = None  # as in ``LoggedRun``


@dataclass(frozen=True)
class Earlier:
    """What an evaluation is compared with."""

    name: str  # number of a logged evaluation, or the tag of a run file
    runs: Sequence[EarlierRun]  # one run or more
    pairs: Sequence[PairRun] = ()  # the runs of pairs of languages


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that was logged.

    Attributes:
        earlier: what it is compared with; none if nothing was named.
    """

    number: int
    setup: evaluation_log.Setup
    plan: EvaluationPlan
    topic_set: TopicSet
    scored_runs: ScoredRuns
    earlier: Earlier | None

    @property
    def means(self) -> Mapping[str, float]:
        """Mean of each measure over the topics of the main run: over all languages of topics, or the only one."""
        return self.scored_runs.main.scores.means

    @property
    def taught(self) -> Mapping[str, float]:
        """Share of the relevant documents that taught an encoder, by the encoder's name."""
        return dict(self.setup.settings.get("taught", {}))

    def pair_matrix(self) -> PairMatrix | None:
        """The first measure over pairs of languages, tested against the earlier evaluation; none without pairs."""
        name, measure = str(self.number), str(self.plan.measures[0])
        runs = pair_runs(name, self.scored_runs.runs)
        if not runs:
            return None
        pairs, others = {run.pair for run in runs}, self.earlier.pairs if self.earlier else ()
        earlier = [run for run in others if run.pair in pairs and run.qids(measure)]
        return pair_matrix(name, measure, runs, self.earlier.name if self.earlier and earlier else "", earlier)

    def psq_pair_matrix(self) -> PairMatrix | None:
        """The matrix of the first measure over PSQ's pairs of languages; none if there are none."""
        runs = pair_runs(str(self.number), self.scored_runs.runs, "psq-pair")
        return pair_matrix(f"{self.number}, PSQ", str(self.plan.measures[0]), runs) if runs else None

    def comparisons(self) -> list[Comparison]:
        """Compare the runs with the earlier runs of the same names, or else the main run with the first earlier run.

        Raises BadInput: the runs to compare with have none of the topics or none of the measures.
        """
        if self.earlier is None:
            return []
        measures = [str(measure) for measure in self.plan.measures if str(measure) != JUDGED] or [JUDGED]
        matched = [
            (earlier, run)
            for earlier in self.earlier.runs
            for run in self.scored_runs.runs
            if run.name == earlier.name and earlier.scores.keys() & run.scores.topics.keys()
        ]
        comparisons: list[Comparison] = []
        for earlier, scored_run in matched or [(self.earlier.runs[0], self.scored_runs.main)]:
            shared = [measure for measure in measures if measure in earlier.measures]
            if not shared:
                raise BadInput(
                    f"run {earlier.run} has none of these measures; choose one of {', '.join(earlier.measures)}"
                )
            name, scores = f"{self.number}.{scored_run.name}", scored_run.scores.topics
            comparisons += compare(earlier.run, earlier.scores, name, scores, shared, topic=scored_run.topic)
        return corrected(comparisons)


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

    The encoder's name and how it ranks replace an empty tag. ``ranking`` replaces the calibration's options;
    ``compared_with`` is a logged run or a TREC run file. Raises BadInput: there is no such collection or run, or no
    topic has a relevant document; StoreError: the log can't be written.
    """
    console = console or Console(quiet=True)
    with open_database(settings.database) as engine:
        require_writable(engine, evaluation_log.EvaluationRow)
        named = read_earlier(engine, compared_with, topic_set, plan) if compared_with else None
        row = collections.find(engine, collection)
        with Searcher.open(
            collection, settings, device=device, ranking=ranking, console=console, to=plan.to
        ) as searcher:
            to = plan.to and searcher.targets(plan.to)
            tag = plan.tag or default_tag(searcher, to, named=bool(ranking and ranking.calibration))
            plan = replace(plan, tag=tag, to=to)
            total = rounds(plan, searcher.targets(plan.to)) * sum(map(len, topic_set.topics.values()))
            counts = searcher.store.count()
            with console.progress("evaluating", total, "topics") as advance:
                scored_runs = rank_and_score(searcher, topic_set.topics, topic_set.qrels, plan, advance)
            if searcher.store.count() != counts:
                scored_runs.remarks.append("the collection changed while topics were ranked; evaluate it again")
            encoders = encoders_with_methods(row, searcher.calibration) if row else []
            taught = taught_shares(encoders, lambda: _relevant_texts(searcher, topic_set, scored_runs), console)
            plan_settings = {
                "fields": list(plan.fields),
                "to": plan.to and list(plan.to),
                "targets": len(searcher.targets(plan.to)),
                "depth": plan.depth,
                "taught": dict(taught),
                **({"lexicons": list(plan.lexicons.names)} if plan.lexicons.names else {}),
                **({"reranking_seconds": round(searcher.reranker.seconds, 3)} if searcher.reranker else {}),
            }
            setup = evaluation_log.Setup(
                collection=searcher.collection,
                tag=plan.tag,
                **values_of(searcher.spec, "model", "build"),
                space=searcher.space,
                settings={**searcher.describe(), **plan_settings},
                topics=topic_set.name,
                **values_of(topic_set, "topics_hash", "qrels_hash"),
            )
            earlier = _earlier(named, searcher, topic_set, scored_runs, plan) if isinstance(named, Run) else named
            warn_of_differences(earlier, setup, plan, scored_runs.runs, console)
        number = evaluation_log.log(engine, setup, scored_runs.runs, row)
    return Evaluation(number, setup, plan, topic_set, scored_runs, earlier)


def _earlier(
    run: Run, searcher: Searcher, topic_set: TopicSet, scored_runs: ScoredRuns, plan: EvaluationPlan
) -> Earlier:
    """The run of a TREC file, scored by the judgements of an evaluation, without documents that were not searched."""
    doc_ids = run.doc_ids | {qrel.doc_id for qrel in scored_runs.qrels}
    langs = languages_of(searcher.store, searcher.stored_model, doc_ids)
    return score_earlier(run, topic_set, Judgements(scored_runs.qrels, langs), searcher.targets(plan.to), plan)


def read_earlier(engine: sa.Engine, name: str, topic_set: TopicSet, plan: EvaluationPlan) -> Run | Earlier:
    """The TREC file's run, or the logged runs of an id. Raises BadInput: there is none, or none of the topics."""
    if Path(name).is_file():
        run = Run.read_trec(name)
        by_topic_language(run, topic_set.topics)
        return run
    named_run = evaluation_log.find(engine, name)
    runs = [named_run]
    if "." not in name:
        members = evaluation_log.members(engine, named_run.evaluation)
        runs = [run for run in members if run.kind in {"language", "pooled"}] or runs
    return Earlier(
        str(named_run.evaluation),
        [
            EarlierRun(
                run.id,
                run.name,
                list(run.means),
                evaluation_log.scores(engine, run.id),
                (run.setup.qrels_hash, run.setup.judged_languages),
                run.documents_in,
            )
            for run in runs
        ],
        evaluation_log.pairs(engine, named_run) if plan.pairs else (),
    )


def score_earlier(
    run: Run, topic_set: TopicSet, judgements: Judgements, targets: Sequence[str], plan: EvaluationPlan
) -> Earlier:
    """Score the run of a TREC file by the judgements of the evaluation that is compared with it."""
    scored = score_foreign(run, topic_set.topics, judgements, plan, targets=targets)
    scores = scored.main.scores
    earlier_run = EarlierRun(run.tag, scored.main.name, list(scores.means), scores.topics)
    return Earlier(run.tag, [earlier_run], pair_runs(run.tag, scored.runs))


def pair_runs(name: str, runs: Sequence[ScoredRun], kind: RunKind = "pair") -> list[PairRun]:
    """The pairs of languages of a kind among an evaluation's runs, by ids that begin with ``name``."""
    return [
        PairRun(f"{name}.{run.name}", run.lang, run.documents, run.scores.topics) for run in runs if run.kind == kind
    ]


def _relevant_texts(searcher: Searcher, topic_set: TopicSet, scored_runs: ScoredRuns) -> list[str]:
    qids = {topic.qid for topics in topic_set.topics.values() for topic in topics}
    doc_ids = {qrel.doc_id for qrel in scored_runs.qrels if qrel.relevance > 0 and qrel.query_id in qids}
    return [stamp.text_hash for stamp in searcher.store.stamps(searcher.stored_model, sorted(doc_ids)).values()]


def warn_of_differences(
    earlier: Earlier | None,
    setup: evaluation_log.Setup,
    plan: EvaluationPlan,
    runs: Sequence[ScoredRun],
    console: Console,
) -> None:
    """Warn if an earlier run was scored by other judgements than the runs of a setup, or has no pairs to compare."""
    if earlier is None:
        return
    has_namesake = {run.name for run in earlier.runs} & {run.name for run in runs}
    is_restricted = earlier.runs[0].documents_in and not has_namesake  # it is compared with the main run
    if is_restricted or earlier.runs[0].judged_by not in (None, (setup.qrels_hash, setup.judged_languages)):
        run = earlier.runs[0].run
        console.warn(f"run {run} was scored by other qrels or another --to; part of the difference is theirs")
    if plan.pairs and not earlier.pairs:
        console.warn(f"evaluation {earlier.name} was made without --pairs, so that its pairs can't be compared")
    elif plan.pairs and not any(run.qids(str(plan.measures[0])) for run in earlier.pairs):
        console.warn(f"the pairs of {earlier.name} were not measured with {plan.measures[0]} and can't be compared")
