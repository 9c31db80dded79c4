"""``dragoman evaluate``: topics × collection → runs, scores, the log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click

from encoders.console import Console
from encoders.languages import language_list, typed_languages
from encoders.machine.placement import Device
from encoders.table_layout import Table
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.commands.options.common_options import common_options, gathered, searched_collection_option
from query.commands.options.encoder_options import device_option
from query.commands.options.help import Command
from query.commands.options.option_types import FILE, PATH, choice_option, default_option
from query.commands.options.search_options import (
    compare_option,
    files_option,
    languages_of_option,
    lexicons_option,
    measures_option,
    pairs_option,
    ranking_options,
    reading_topics_options,
    to_option,
)
from query.commands.output.evaluations import show_compared
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import evaluate_collection
from query.evaluation.scored_runs import Baseline, EvaluationPlan
from query.lexical_baselines.lexicons import read_lexicons
from query.measures.quality_measures import parse_measures
from query.query_log.judged_queries import logged_topic_set
from query.trec_files.file_patterns import expand
from query.trec_files.output_files import require_writable, write_lines
from query.trec_files.topic_set import TopicSet, read_topic_set
from query.trec_files.topics import FIELDS, PARTS, Topic


def plan_of(
    measures: str,
    tag: str = "",
    fields: str = ",".join(FIELDS),
    to: str | None = None,
    depth: int = 1000,
    baseline: Baseline = "bm25",
    lexicons: Sequence[str] = (),
    *,
    pairs: bool = False,
) -> EvaluationPlan:
    """The plan that a command's options state, some of which it may lack."""
    parts = fields.replace(",", " ").split()
    Topic("", "", "").text(parts)
    return EvaluationPlan(
        parse_measures([measures]),
        tag,
        parts,
        None if to is None else typed_languages(to),
        depth,
        baseline=baseline,
        pairs=pairs,
        lexicons=read_lexicons(lexicons),
    )


def topic_set_of(
    topic_files: Sequence[str], qrel_files: Sequence[str], langs: str, lang: str, encoding: str
) -> TopicSet:
    """The topics and judgements that a command's options name."""
    topics, qrels = expand(topic_files, "topics"), expand(qrel_files, "qrels")
    return read_topic_set(topics, qrels, langs=language_list(langs), lang=lang, encoding=encoding)


@click.command("evaluate", cls=Command)
@files_option("--topics", "topic_files", "CLEF, TREC, BEIR, TSV, JSON lines.")
@files_option("--qrels", "qrel_files", "Judgements in TREC format, or with a header.")
@click.option("--from-log", is_flag=True, help="Ask what dragoman serve --log was asked; clicks judge, or --qrels.")
@searched_collection_option("Collection to search.")
@languages_of_option("--langs", "Languages of topics, one run each.  [default: all]", default="", metavar="de,en")
@to_option
@reading_topics_options
@click.option("--fields", default=",".join(FIELDS), show_default=True, help=f"Parts of a topic: {', '.join(PARTS)}.")
@measures_option
@default_option("--depth", click.IntRange(1, 10_000), 1000, "Documents ranked a topic.")
@click.option(
    "--run-file",
    type=FILE,
    help="Write the main run here in TREC format: with several topic languages, the pooled run.",
)
@click.option("--tag", default="", help="Name of the run.  [default: encoder and ranking]")
@compare_option("a TREC run file")
@choice_option(
    "--baseline",
    get_args(Baseline),
    "Search the topics' own language, too: by the encoder and BM25 (bm25), or not (none).",
    default="bm25",
)
@lexicons_option
@pairs_option
@ranking_options
@device_option
@common_options
@gathered("plan", plan_of)
def command(
    plan: EvaluationPlan,
    topic_files: tuple[str, ...],
    qrel_files: tuple[str, ...],
    from_log: bool,
    name: str,
    langs: str,
    lang: str,
    encoding: str,
    run_file: Path | None,
    settings: Settings,
    console: Console,
    **ranking: Any,
) -> None:
    """Ask every topic of a collection, score the rankings, and log them.

    One run for each topic language against all documents, and one over all of them, whose topics are named qid.lang.
    --topics and --qrels may be given several times; each takes a file, a folder, a pattern in quotes, ir-datasets:NAME,
    or several of these with commas between.

    With --from-log the topics are the logged queries of which a hit was opened, and the opened hits are relevant. With
    --from-log and --qrels the topics are the logged queries that the qrels judge, by the ids of dragoman queries. The
    MAP of the rankings that people were shown is printed by week, too.

    --lexicon may be given several times. A lexicon has lines of word, tab, translation and, if known, tab, probability,
    or is JSON: {"word": {"translation": probability}}.
    """
    if bool(topic_files) == from_log or not (qrel_files or from_log):
        raise click.UsageError("give --topics and --qrels, or --from-log instead of topics")
    if from_log:
        judgements = expand(qrel_files, "qrels") if qrel_files else []
        topic_set, weeks = logged_topic_set(name, settings, judgements, language_list(langs))
        rows = [[week, f"{searches:,}", f"{value:.3f}"] for week, (searches, value) in weeks.items()]
        values = {week: {"searches": searches, "AP": value} for week, (searches, value) in weeks.items()}
        console.show({"weeks": values}, [Table(["week of", ">searches", ">MAP of what was shown"], rows, "by week")])
    else:
        topic_set = topic_set_of(topic_files, qrel_files, langs, lang, encoding)
    if run_file:
        require_writable(run_file)
    evaluation = evaluate_collection(name, topic_set, settings, plan, console=console, **ranking)
    if run_file:
        with open_database(settings.database) as engine:
            write_lines(run_file, evaluation_log.export(engine, str(evaluation.number)))
    show_compared(evaluation, console)


@click.command("study", cls=Command)
@files_option("--topics", "topic_files", "As in dragoman evaluate.", required=True)
@files_option("--qrels", "qrel_files", "Judgements, as in dragoman evaluate.", required=True)
@searched_collection_option("Collection to study.")
@click.option("-o", "--output", type=PATH, metavar="FOLDER", required=True, help="Folder to write.")
@languages_of_option("--langs", "Languages of topics.  [default: all]", default="", metavar="de,en")
@reading_topics_options
@measures_option
@lexicons_option
@device_option
@common_options
@gathered("topic_set", topic_set_of)
@gathered("plan", plan_of)
def study(
    topic_set: TopicSet,
    plan: EvaluationPlan,
    name: str,
    output: Path,
    device: Device,
    settings: Settings,
    console: Console,
) -> None:
    """Evaluate a collection by six rankings, BM25 and, with --lexicon, PSQ, and write what differs.

    The folder's page, study.html, says it in sentences. Beside it are tables (.tex, .csv), pictures, and every run with
    its judgements for trec_eval -c.
    """
    from query.report.study import study as study_collection  # noqa: PLC0415 - figures, which --help does not need

    evaluations = study_collection(name, topic_set, settings, plan, output, device=device, console=console)
    numbers, page = [evaluation.number for evaluation in evaluations.values()], (output / "study.html").absolute()
    console.show(
        {"collection": name, "evaluations": numbers, "page": page}, f"The study of {name} is written to {page}"
    )
