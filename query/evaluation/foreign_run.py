"""A run of any system, from a TREC run file: scored and logged like an evaluation, with or without a collection."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from encoders.console import QUIET, Console, values_of
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.contract import VectorStore
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import Evaluation, read_earlier, score_earlier, warn_of_differences
from query.evaluation.foreign_scores import score_foreign
from query.evaluation.run_scoring import languages_of
from query.evaluation.scored_runs import EvaluationPlan, Judgements
from query.ranking.searcher_opening import target_languages
from query.trec_files.topic_set import TopicSet
from query.trec_files.trec_run import Run


def import_run(
    file: Path,
    topic_set: TopicSet,
    settings: Settings,
    plan: EvaluationPlan,
    *,
    collection: str = "",
    compared_with: str = "",
    console: Console = QUIET,
) -> Evaluation:
    """Score a TREC run file and log it; an empty tag of the plan is replaced by the file's.

    Topics are as in ``by_topic_language``. The languages of documents of ``collection`` give fairness, and are needed
    for pairs and for ``to``. Raises BadInput: the file is no run, no topic has a relevant document, the collection has
    none of the documents or lacks a language, or none is named and needed; StoreError: the log can't be written.
    """
    if (plan.pairs or plan.to is not None) and not collection:
        option = "--pairs" if plan.pairs else "--to"
        raise BadInput(
            f"only a collection knows the languages of the documents; name it with -c, or leave {option} out"
        )
    run = Run.read_trec(file)
    plan = replace(plan, tag=plan.tag or run.tag)
    run = replace(run, tag=plan.tag)
    with open_database(settings.database) as engine:
        earlier = read_earlier(engine, compared_with, topic_set, plan) if compared_with else None
        ranked, targets = run.doc_ids | (earlier.doc_ids if isinstance(earlier, Run) else set()), list[str]()
        row = collections.require(engine, collection) if collection else None
        if row is None:
            judgements = Judgements.of(topic_set.qrels, lambda ids: dict.fromkeys(ids & ranked, ""))
        else:
            with _opened(row, settings) as store:
                judgements = Judgements.of(topic_set.qrels, lambda ids: languages_of(store, row.model, ids | ranked))
                targets = target_languages(collection, store.count(), plan.to)
            plan = replace(plan, to=plan.to and targets)
            if not judgements.langs:
                raise BadInput(
                    f"collection {collection} has none of the ranked or judged documents; name the collection that has "
                    "these, or leave -c out"
                )
        scored_runs = score_foreign(run, topic_set.topics, judgements, plan, targets=targets)
        of_file = {"file": file.name, "file_hash": file_hash(file), "targets": len(targets), "to": plan.to}
        hashes = values_of(topic_set, "topics_hash", "qrels_hash")
        setup = evaluation_log.Setup(collection, plan.tag, "", "", "", of_file, topic_set.name, **hashes)  # no encoder
        if isinstance(earlier, Run):
            earlier = score_earlier(earlier, topic_set, judgements, targets, plan)
        warn_of_differences(earlier, setup, plan, scored_runs.runs, console)
        number = evaluation_log.log(engine, setup, scored_runs.runs, row)
    return Evaluation(number, setup, plan, topic_set, scored_runs, earlier)


def document_languages(engine: sa.Engine, collection: str, settings: Settings, doc_ids: set[str]) -> dict[str, str]:
    """Languages of documents by id. Raises BadInput: there is no such collection, or it is in another's store."""
    row = collections.require(engine, collection)
    with _opened(row, settings) as store:
        return languages_of(store, row.model, doc_ids)


def _opened(row: Collection, settings: Settings) -> closing[VectorStore]:
    row.check_store(settings)
    return closing(row.open_store(settings))
