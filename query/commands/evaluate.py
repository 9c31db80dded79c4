"""``dragoman evaluate``: topics × collection → runs, scores, the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import file_hash
from encoders.languages import UNDETERMINED, language_list
from indexer.ledger.database import opened
from indexer.settings import Settings
from query.commands.options import output_options, place_options, ranking_options
from query.commands.runs import comparison_json, found_json, show_comparisons, show_found
from query.evaluation import history
from query.evaluation.experiment import Plan, Result, by_language, experiment, score_external
from query.evaluation.fairness import OWN_LANGUAGE, PEER, is_fairness
from query.evaluation.file_patterns import expand, writable, write_lines
from query.evaluation.measures import DEFAULT_MEASURES, JUDGED, parse_measures, pooled
from query.evaluation.qrels import read_qrels
from query.evaluation.significance import Comparison, compare, corrected
from query.evaluation.topics import PARTS, Topic, read_topics
from query.evaluation.trec_run import Run
from query.query_log.judged_queries import logged_files
from query.ranking.options import RankingOptions
from query.ranking.searcher import Searcher

FIELDS = ("title", "description")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("evaluate", short_help="Score a collection with topics and relevance judgements.")
@click.option("--topics", "topic_files", multiple=True, metavar="FILE", help="CLEF, TREC, TSV, JSON lines.")
@click.option("--qrels", "qrel_files", multiple=True, metavar="FILE", help="Judgements in TREC format.")
@click.option("--from-log", is_flag=True, help="Ask what dragoman serve --log was asked; clicks judge, or --qrels.")
@click.option("-c", "--collection", "name", required=True, envvar="DRAGOMAN_COLLECTION", help="Collection to search.")
@click.option("--langs", default="", metavar="de,en", help="Languages of topics, one run each.  [default: all]")
@click.option("--to", metavar="fr,it", help="Languages of documents.  [default: all of the collection's]")
@click.option("--lang", default="", help="Language of topics that name none.")
@click.option("--encoding", default="", help="Of the topics' files.  [default: UTF-8, then what they declare]")
@click.option("--fields", default=",".join(FIELDS), show_default=True, help=f"Parts of a topic: {', '.join(PARTS)}.")
@click.option("--measures", default=" ".join(DEFAULT_MEASURES), show_default=True, help="Names of ir-measures.")
@click.option(
    "--depth", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Documents ranked a topic."
)
@click.option("--run-file", type=_FILE, help="Write the run here as TREC does; of several languages the pooled one.")
@click.option("--tag", default="", help="Name of the run.  [default: the encoder's]")
@click.option("--compare", "baseline", default="", metavar="RUN", help="Compare with a logged run, or a TREC run file.")
@click.option("--no-baseline", is_flag=True, help="Leave out same-language search and BM25.")
@ranking_options
@place_options
@output_options
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
    baseline: str,
    no_baseline: bool,
    ranking: RankingOptions,
    settings: Settings,
    console: Console,
) -> None:
    """Ask every topic of a collection, score the rankings, and log them.

    One run for each topic language against all documents, and one over all of them, whose topics are named qid.lang.
    --topics and --qrels may be given several times; each takes a file, a folder, a pattern in quotes, or several of
    these with commas between. With --from-log the queries are those of which a hit was opened, and what was opened is
    relevant; or, with --qrels, those that it judges by the ids of dragoman queries. What people were shown is scored
    by week, too.
    """
    if bool(topic_files) == from_log or not (qrel_files or from_log):
        raise click.UsageError("give --topics and --qrels, or --from-log instead of topics")
    with ExitStack() as stack:
        if from_log:
            judgements = expand(qrel_files, "qrels") if qrel_files else []
            topics, qrels = stack.enter_context(logged_files(name, settings, judgements, console))
        else:
            topics, qrels = expand(topic_files, "topics"), expand(qrel_files, "qrels")
        evaluate_files(
            topics,
            qrels,
            name,
            settings,
            console,
            langs=language_list(langs),
            to=None if to is None else language_list(to),
            lang=lang,
            encoding=encoding,
            fields=_fields(fields),
            measures=measures,
            depth=depth,
            run_file=run_file,
            tag=tag,
            compare_with=baseline,
            baseline=not no_baseline,
            ranking=ranking,
        )


def evaluate_files(
    topic_paths: Sequence[Path],
    qrel_paths: Sequence[Path],
    collection: str,
    settings: Settings,
    console: Console,
    *,
    langs: Sequence[str] = (),
    to: Sequence[str] | None = None,
    lang: str = "",
    encoding: str = "",
    fields: Sequence[str] = FIELDS,
    measures: str = " ".join(DEFAULT_MEASURES),
    depth: int = 1000,
    run_file: Path | None = None,
    tag: str = "",
    compare_with: str = "",
    baseline: bool = True,
    ranking: RankingOptions | None = None,
) -> int:
    """Evaluate, log and show: what the command does; returns the evaluation's number.

    The options are the command's, their language codes normalised.
    """
    plan_measures = parse_measures([measures])
    topics = by_language(
        [topic for path in topic_paths for topic in read_topics(path, lang=lang, encoding=encoding)], langs
    )
    if UNDETERMINED in topics:
        console.warn("there are topics that name no language; say which with --lang en")
    qrels = read_qrels(qrel_paths)
    if run_file:
        writable(run_file)
    with opened(settings.database) as engine:
        other = _other_run(engine, compare_with) if compare_with else None
        with Searcher.open(
            collection,
            settings,
            ranking=ranking,
            console=console,
        ) as searcher:
            plan = Plan(plan_measures, tag or searcher.spec.name, fields, to, depth, baseline)
            asked = sum(map(len, topics.values()))
            with console.progress("evaluating", asked, "topics") as advance:
                result = experiment(searcher, topics, qrels, plan, advance)
            setup = _setup(searcher, plan, topic_paths, qrel_paths)
        number = history.log(engine, setup, result.outcomes)
        if run_file:
            write_lines(run_file, history.export(engine, str(number)))
        _show(console, number, result, plan)
        comparisons = _compare(engine, number, result, other, topics, qrels, plan) if other else []
    if comparisons and not console.json:
        show_comparisons(console, comparisons)
    console.emit(_as_json(number, setup, result, comparisons))
    return number


def _list(text: str) -> list[str]:
    return [part for part in text.replace(",", " ").split() if part]


def _fields(text: str) -> list[str]:
    fields = _list(text)
    if not fields:
        raise BadInput(f"--fields names no part of a topic; its parts are {', '.join(PARTS)}")
    Topic("", "", "").text(fields)
    return fields


def _setup(searcher: Searcher, plan: Plan, topic_paths: Sequence[Path], qrel_paths: Sequence[Path]) -> history.Setup:
    asked = {"fields": list(plan.fields), "to": plan.to and list(plan.to), "depth": plan.depth}
    return history.Setup(
        collection=searcher.collection,
        tag=plan.tag,
        model=searcher.spec.model,
        build=searcher.spec.build,
        space=searcher.space,
        settings={**searcher.describe(), **asked},
        topics=", ".join(path.name for path in topic_paths),
        topics_hash=file_hash(*topic_paths),
        qrels_hash=file_hash(*qrel_paths),
    )


def _other_run(engine: sa.Engine, name: str) -> Run | list[history.LoggedRun]:
    """The run to compare with, found before the work starts: a file's, or all that an id may stand for."""
    if Path(name).is_file():
        return Run.read_trec(name)
    found = history.find(engine, name)
    if "." in name:
        return [found]
    return [run for run in history.members(engine, found.evaluation) if run.kind in {"language", "pooled"}]


def _compare(
    engine: sa.Engine,
    number: int,
    result: Result,
    other: Run | Sequence[history.LoggedRun],
    topics: Mapping[str, Sequence[Topic]],
    qrels: Sequence[Any],
    plan: Plan,
) -> list[Comparison]:
    """The new runs against those of the same name, or the main one against the only one there is."""
    measures = [str(measure) for measure in plan.measures if str(measure) != JUDGED]
    main = result.main
    if isinstance(other, Run):
        scores = score_external(other, topics, qrels, plan.measures)
        name = f"{number}.{main.name}"
        found = compare(other.tag, scores.topics, name, main.scores.topics, measures, topic=main.topic)
        return corrected(found)
    by_name = {outcome.name: outcome for outcome in result.outcomes}
    pairs = [(run, by_name[run.name]) for run in other if run.name in by_name] or [(other[0], main)]
    comparisons: list[Comparison] = []
    for run, outcome in pairs:
        shared = [measure for measure in measures if measure in run.means]
        if not shared:
            raise BadInput(f"run {run.id} has none of these measures; choose one of {', '.join(run.means)}")
        before = history.scores(engine, run.id)
        name = f"{number}.{outcome.name}"
        comparisons += compare(run.id, before, name, outcome.scores.topics, shared, topic=outcome.topic)
    return corrected(comparisons)


def _show(console: Console, number: int, result: Result, plan: Plan) -> None:
    for remark in result.remarks:
        console.warn(remark)
    own = _own_language_means(result, plan)
    measures = [str(measure) for measure in plan.measures]
    fair = [measure for measure in result.main.scores.means if is_fairness(measure)]
    columns = ["topics in", ">topics", *(f">{_heading(measure)}" for measure in [*measures, *fair])]
    columns += [f">{_heading(measures[0])} same\nlanguage", ">BM25\nthere"] if own else []
    rows = []
    for outcome in result.outcomes:
        if outcome.kind not in {"language", "pooled"}:
            continue
        row = ["all, pooled" if outcome.kind == "pooled" else outcome.lang, f"{len(outcome.scores.topics):,}"]
        row += [_figure(measure, outcome.scores.means.get(measure)) for measure in [*measures, *fair]]
        if own:
            row += [f"{mean:.3f}" if mean is not None else "–" for mean in own.get(outcome.lang, (None, None))]
        rows.append([*row, f"{number}.{outcome.name}"])
    console.table([*columns, "run"], rows, title=f"{plan.tag}, evaluation {number}")
    for measure in fair:
        console.result(_meaning(measure))
    show_found(console, result.main.found)
    for sentence in _left_out(result):
        console.say(sentence)
    console.say(f"Logged as evaluation {number}; every topic's scores: dragoman runs show {number}")


def _own_language_means(result: Result, plan: Plan) -> dict[str, tuple[float | None, float | None]]:
    """By topic language, the first measure within that language: the encoder's and BM25's; ``mul`` is the pool."""
    measure = str(plan.measures[0])
    same, bm25 = result.of_kind("same"), result.of_kind("bm25")
    if not same:
        return {}
    means: dict[str, tuple[float | None, float | None]] = {
        lang: (same[lang].means[measure], bm25[lang].means[measure]) for lang in same
    }
    means["mul"] = (pooled(same, plan.measures).means[measure], pooled(bm25, plan.measures).means[measure])
    return means


def _left_out(result: Result) -> Iterable[str]:
    for outcome in result.outcomes:
        if outcome.kind == "language" and (count := len(outcome.scores.unjudged)):
            yield f"topics in {outcome.lang} that have nothing relevant in the qrels, and are left out: {count}"
        if outcome.kind == "language" and (count := len(outcome.scores.without_hits)):
            yield f"topics in {outcome.lang} that found nothing, and count 0: {count}"


def _heading(measure: str) -> str:
    if measure == "AP":
        return "MAP"
    return "own\nlanguage" if measure.startswith(OWN_LANGUAGE) else measure


def _figure(measure: str, mean: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.0%}" if measure.startswith(OWN_LANGUAGE) else f"{mean:.3f}"


def _meaning(measure: str) -> str:
    if measure == PEER:
        return f"{PEER}: 1 where equally relevant documents stand at equal ranks whatever their language, 0 where not."
    targets = int(measure.removeprefix(f"{OWN_LANGUAGE}@"))
    return (
        f"own language: of the first {targets} hits, the share in the topic's language; "
        f"{1 / targets:.0%} would be fair, one hit for each of the {targets} languages."
    )


def _as_json(number: int, setup: history.Setup, result: Result, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "evaluation": number,
        **asdict(setup),
        "runs": [
            {
                "id": f"{number}.{outcome.name}",
                "kind": outcome.kind,
                "lang": outcome.lang,
                "topics": len(outcome.scores.topics),
                "means": dict(outcome.scores.means),
                "found": found_json(outcome.found),
                "unjudged": list(outcome.scores.unjudged),
                "without_hits": list(outcome.scores.without_hits),
            }
            for outcome in result.outcomes
        ],
        "comparisons": [comparison_json(comparison) for comparison in comparisons],
        "remarks": result.remarks,
    }
