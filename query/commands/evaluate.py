"""``dragoman evaluate``: topics × collection → runs, scores, the log."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from encoders.console import Console
from encoders.errors import BadInput
from encoders.languages import language_list, typed_languages
from encoders.machine.placement import Device
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.commands import completion
from query.commands.help import Command
from query.commands.options import (
    FILE,
    FILLED,
    collection_option,
    common_options,
    device_option,
    pairs_option,
    ranking_options,
)
from query.commands.output.evaluations import show_compared, show_weeks
from query.evaluation import evaluation_log
from query.evaluation.collection_evaluation import evaluate_collection
from query.evaluation.scored_runs import Baseline, EvaluationPlan
from query.lexical_baselines.lexicons import read_lexicons
from query.measures.quality_measures import DEFAULT_MEASURES, parse_measures
from query.query_log.judged_queries import logged_topic_set
from query.ranking.ranking_options import RankingOptions
from query.trec_files.file_patterns import expand
from query.trec_files.output_files import require_writable, write_lines
from query.trec_files.topic_set import read_topic_set
from query.trec_files.topics import FIELDS, PARTS, Topic


@click.command("evaluate", cls=Command)
@click.option(
    "--topics", "topic_files", multiple=True, type=FILLED, metavar="FILE", help="CLEF, TREC, TSV, JSON lines."
)
@click.option("--qrels", "qrel_files", multiple=True, type=FILLED, metavar="FILE", help="Judgements in TREC format.")
@click.option("--from-log", is_flag=True, help="Ask what dragoman serve --log was asked; clicks judge, or --qrels.")
@collection_option("Collection to search.")
@click.option(
    "--langs",
    default="",
    metavar="de,en",
    help="Languages of topics, one run each.  [default: all]",
    shell_complete=completion.languages,
)
@click.option(
    "--to",
    metavar="fr,it",
    help="Languages of documents.  [default: all of the collection's]",
    shell_complete=completion.languages,
)
@click.option("--lang", default="", help="Language of topics that name none.", shell_complete=completion.languages)
@click.option("--encoding", default="", help="Encoding of the topics' files.  [default: UTF-8, then what they declare]")
@click.option("--fields", default=",".join(FIELDS), show_default=True, help=f"Parts of a topic: {', '.join(PARTS)}.")
@click.option(
    "--measures", default=" ".join(DEFAULT_MEASURES), show_default=True, help="Names of ir-measures or trec_eval."
)
@click.option(
    "--depth", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Documents ranked a topic."
)
@click.option(
    "--run-file",
    type=FILE,
    help="Write the main run here in TREC format: with several topic languages, the pooled run.",
)
@click.option("--tag", default="", help="Name of the run.  [default: encoder and ranking]")
@click.option(
    "--compare",
    "compared_with",
    default="",
    metavar="RUN",
    help="Compare with a logged run, or a TREC run file.",
    shell_complete=completion.runs,
)
@click.option(
    "--baseline",
    type=click.Choice(get_args(Baseline)),
    default="bm25",
    show_default=True,
    help="Search the topics' own language, too: by the encoder and BM25 (bm25), or not (none).",
)
@click.option(
    "--lexicon",
    "lexicons",
    multiple=True,
    metavar="en-de=FILE",
    help="Rank by PSQ, too: BM25 with query translation by this file, or by the folder of a Cr5 model.",
)
@pairs_option
@ranking_options
@device_option
@common_options
def command(
    topic_files: tuple[str, ...],
    qrel_files: tuple[str, ...],
    from_log: bool,
    name: str,
    langs: str,
    to: str | None,
    lang: str,
    encoding: str,
    fields: str,
    measures: str,
    depth: int,
    run_file: Path | None,
    tag: str,
    compared_with: str,
    baseline: Baseline,
    lexicons: tuple[str, ...],
    pairs: bool,
    ranking: RankingOptions,
    device: Device,
    settings: Settings,
    console: Console,
) -> None:
    """Ask every topic of a collection, score the rankings, and log them.

    One run for each topic language against all documents, and one over all of them, whose topics are named qid.lang.
    --topics and --qrels may be given several times; each takes a file, a folder, a pattern in quotes, or several of
    these with commas between.

    With --from-log the topics are the logged queries of which a hit was opened, and the opened hits are relevant. With
    --from-log and --qrels the topics are the logged queries that the qrels judge, by the ids of dragoman queries. The
    MAP of the rankings that people were shown is printed by week, too.

    --lexicon may be given several times. A lexicon has lines of word, tab, translation and, if known, tab, probability,
    or is JSON: {"word": {"translation": probability}}.
    """
    if bool(topic_files) == from_log or not (qrel_files or from_log):
        raise click.UsageError("give --topics and --qrels, or --from-log instead of topics")
    query_langs = language_list(langs)
    if from_log:
        judgements = expand(qrel_files, "qrels") if qrel_files else []
        topic_set, weeks = logged_topic_set(name, settings, judgements, query_langs)
        show_weeks(weeks, console)
    else:
        topics, qrels = expand(topic_files, "topics"), expand(qrel_files, "qrels")
        topic_set = read_topic_set(topics, qrels, langs=query_langs, lang=lang, encoding=encoding)
    if run_file:
        require_writable(run_file)
    plan = EvaluationPlan(
        parse_measures([measures]),
        tag,
        _fields(fields),
        None if to is None else typed_languages(to),
        depth,
        baseline=baseline,
        pairs=pairs,
        lexicons=read_lexicons(lexicons),
    )
    evaluation = evaluate_collection(
        name,
        topic_set,
        settings,
        plan,
        ranking=ranking,
        compared_with=compared_with,
        device=device,
        console=console,
    )
    if run_file:
        with open_database(settings.database) as engine:
            write_lines(run_file, evaluation_log.export(engine, str(evaluation.number)))
    show_compared(evaluation, console)


def _fields(text: str) -> list[str]:
    fields = text.replace(",", " ").split()
    if not fields:
        raise BadInput(f"--fields names no part of a topic; its parts are {', '.join(PARTS)}")
    Topic("", "", "").text(fields)
    return fields
