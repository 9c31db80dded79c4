"""A run of any system, from a TREC run file: scored and logged like an evaluation, with no collection at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from encoders.console import Console
from encoders.folder import file_hash
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.evaluation import evaluation_log
from query.evaluation.evaluate import Evaluation, earlier_runs, warn_of_other_judgements, warn_of_undetermined
from query.evaluation.measures import pooled
from query.evaluation.scored_runs import (
    EvaluationPlan,
    ScoredRun,
    ScoredRuns,
    by_topic_language,
    left_out,
    score_by_language,
)
from query.evaluation.topic_set import TopicSet
from query.evaluation.trec_run import Run, pack


def import_run(
    file: Path,
    topic_set: TopicSet,
    settings: Settings,
    plan: EvaluationPlan,
    *,
    compared_with: str = "",
    console: Console | None = None,
) -> Evaluation:
    """Score a TREC run file and log it; an empty tag of the plan is replaced by the file's.

    The run's topics are as in ``by_topic_language``. The results are compared with
    ``compared_with``, a logged run or another run file.

    Raises:
        BadInput: the file is no run, has none of the topics, or no topic has a relevant document.
        StoreError: the log can't be written.
    """
    console = console or Console(quiet=True)
    warn_of_undetermined(topic_set, console)
    run = Run.read_trec(file)
    plan = replace(plan, tag=plan.tag or run.tag)
    run = replace(run, tag=plan.tag)
    parts = by_topic_language(run, topic_set.topics)
    scores = score_by_language(parts, topic_set.topics, topic_set.qrels, plan.measures)
    scored_runs = ScoredRuns(
        [ScoredRun(lang, "language", lang, of_lang, pack(parts[lang])) for lang, of_lang in scores.items()],
        [left_out(lang) for lang in parts if lang not in scores],
        topic_set.qrels,
    )
    if len(scores) > 1:
        scored_runs.runs.append(ScoredRun("all", "pooled", "mul", pooled(scores, plan.measures), None))
    setup = evaluation_log.Setup(
        collection="",
        tag=plan.tag,
        model="",
        build="",
        space="",
        settings={"file": file.name, "file_hash": file_hash(file)},
        topics=topic_set.name,
        topics_hash=topic_set.topics_hash,
        qrels_hash=topic_set.qrels_hash,
    )
    with open_database(settings.database) as engine:
        earlier = earlier_runs(engine, compared_with) if compared_with else None
        warn_of_other_judgements(earlier, setup, console)
        number = evaluation_log.log(engine, setup, scored_runs.runs)
    return Evaluation(number, setup, plan, topic_set, scored_runs, earlier)
