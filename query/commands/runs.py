"""``dragoman runs``: the evaluation log."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import click
import sqlalchemy as sa

from encoders.console import Alert, Console, Note
from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.commands.evaluate import plan_of, topic_set_of
from query.commands.options import completion
from query.commands.options.common_options import collection_option, common_options, gathered, plot_option
from query.commands.options.help import Group
from query.commands.options.option_types import FILE, Decorator
from query.commands.options.search_options import (
    compare_option,
    files_option,
    measures_option,
    pairs_option,
    reading_topics_options,
    to_option,
)
from query.commands.output.comparisons import comparison_json, comparison_parts, matrix_parts, pair_matrix_json
from query.commands.output.evaluations import show_compared, show_logged_run, show_logged_runs
from query.evaluation import evaluation_log
from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.foreign_run import document_languages, import_run
from query.evaluation.pair_matrix import MATRICES, pair_matrix, write_matrix
from query.evaluation.run_settings import differences
from query.evaluation.run_table import TABLES, RunTable, TableRow
from query.evaluation.scored_runs import EvaluationPlan, Judgements
from query.measures.fairness import OWN_LANGUAGE, is_fairness
from query.measures.quality_measures import JUDGED, MEASURE_NAME, standard_name
from query.measures.significance import compare, corrected
from query.trec_files.file_patterns import content_hash, expand
from query.trec_files.output_files import require_writable, write_lines
from query.trec_files.qrels import read_qrels
from query.trec_files.topic_set import TopicSet
from query.trec_files.trec_run import own_id


@click.group("runs", cls=Group, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Look at what `dragoman evaluate` and `python -m papers` logged; alone it is `runs list`.

    An evaluation has a number, its runs have names: 7.de (German topics), 7.all (pooled), 7.de-same (within German),
    7.de-bm25 (BM25 there), 7.de-fi (Finnish documents alone, by --pairs); by PSQ they are 7.de-psq, 7.all-psq and
    7.de-fi-psq. The number alone is its main run.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_runs)


def _tables_option(text: str) -> Decorator:
    return click.option("-o", "--output", "files", multiple=True, type=FILE, help=text)


@command.command("list", short_help="List logged runs, newest first.")
@collection_option("Only runs of this collection.")
@click.option("-a", "--all", "every", is_flag=True, help="Every run of an evaluation, not the main one alone.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many evaluations.")
@common_options
def list_runs(name: str | None, every: bool, limit: int, settings: Settings, console: Console) -> None:
    """List logged runs, newest first."""
    engine = click.get_current_context().with_resource(open_database(settings.database))
    logged_runs = evaluation_log.runs(engine, name, every=every, limit=limit)
    if name is not None and not logged_runs:
        collections.require(engine, name)
    show_logged_runs(logged_runs, console)


@command.command("show", short_help="Show a run's settings and every topic's scores.")
@click.argument("run_id", metavar="RUN", shell_complete=completion.runs)
@common_options
def show_run(run_id: str, settings: Settings, console: Console) -> None:
    """Show a run's settings and every topic's scores."""
    engine = click.get_current_context().with_resource(open_database(settings.database))
    run = evaluation_log.find(engine, run_id)
    scores = evaluation_log.scores(engine, run_id)
    members = evaluation_log.members(engine, run.evaluation)
    show_logged_run(run, scores, [member.id for member in members if member.id != run.id], console)


@command.command("import", short_help="Score and log a run of any system.")
@click.argument("file", metavar="FILE")
@files_option("--topics", "topic_files", "Its topics.", required=True)
@files_option("--qrels", "qrel_files", "Judgements in TREC format.", required=True)
@click.option("--langs", default="", metavar="de,en", help="Languages of topics, one run each.  [default: all]")
@to_option
@reading_topics_options
@measures_option
@click.option("--tag", default="", help="Name of the run.  [default: the file's]")
@collection_option("Collection that the system ranked: its languages of documents give fairness measures, too.")
@pairs_option
@compare_option("another run file")
@common_options
@gathered("topic_set", topic_set_of)
@gathered("plan", plan_of)
def import_file(
    file: str,
    topic_set: TopicSet,
    plan: EvaluationPlan,
    name: str | None,
    compared_with: str,
    settings: Settings,
    console: Console,
) -> None:
    """Score a run of any system, from a TREC run file, and log it; no collection is needed.

    The run's topics are plain ids where --topics are in one language, else qid.lang, as dragoman runs export writes
    them. --topics and --qrels take what they take in dragoman evaluate, and what runs export wrote; the run may be
    compressed. A language, or one of the --pairs, for which the run has no hit at all is left out.
    """
    evaluation = import_run(
        Path(file), topic_set, settings, plan, collection=name or "", compared_with=compared_with, console=console
    )
    show_compared(evaluation, console)


@command.command("delete", short_help="Delete evaluations from the log.")
@click.argument("numbers", nargs=-1, required=True, metavar="N…", type=click.IntRange(min=1))
@common_options
def delete_evaluations(numbers: tuple[int, ...], settings: Settings, console: Console) -> None:
    """Delete evaluations by their numbers, with all their runs and scores. No number is used again."""
    engine = click.get_current_context().with_resource(open_database(settings.database))
    evaluation_log.delete(engine, numbers)
    console.show({"deleted": numbers}, f"evaluations deleted: {', '.join(map(str, numbers))}")


@command.command("compare", short_help="Test runs against the first one, topic by topic.")
@click.argument("run_ids", nargs=-1, required=True, metavar="A B [C…]", shell_complete=completion.runs)
@click.option("--measures", default="", metavar="NAMES", help="What to test.  [default: all that score and are shared]")
@plot_option("Draw the differences by topic")
@_tables_option("Write the table of runs and measures here (.csv, .tex).")
@common_options
def compare_runs(
    run_ids: tuple[str, ...],
    measures: str,
    plot: Path | None,
    files: tuple[Path, ...],
    settings: Settings,
    console: Console,
) -> None:
    """Compare runs with the first one, topic by topic: paired randomisation test and t-test, Holm's correction.

    Measures of fairness are compared where --measures names them, such as PEER@100.
    """
    if len(set(run_ids)) < 2:
        raise click.UsageError("give two runs or more, such as: dragoman runs compare 6 7")
    engine = click.get_current_context().with_resource(open_database(settings.database))
    logged_runs = [evaluation_log.find(engine, run_id) for run_id in run_ids]
    tested = _measures(logged_runs, measures)
    for file in files:
        require_writable(file, TABLES)
    (baseline, baseline_scores), *compared = [(run, evaluation_log.scores(engine, run.id)) for run in logged_runs]
    by_run = (
        compare(baseline.id, baseline_scores, run.id, of_run, tested, topic=run.topic) for run, of_run in compared
    )
    comparisons = corrected(list(chain.from_iterable(by_run)))
    differences_by_run = {run.id: differences(run, baseline) for run, _ in compared}
    if plot:
        from query.evaluation.drawing import difference_figure, save_figure  # noqa: PLC0415 - matplotlib is only for this

        drawn = [comparison for comparison in comparisons if comparison.measure == tested[0]]
        save_figure(difference_figure(drawn), plot)
    rows = [TableRow(run.id, run.system, run.topics, run.means) for run in logged_runs]
    for file in files:
        RunTable.of(tested, rows, comparisons).write(file)
    console.show(
        {
            "comparisons": list(map(comparison_json, comparisons)),
            "differences": differences_by_run,
            "plot": plot,
            "files": files,
        },
        [
            *comparison_parts(comparisons),
            *(
                f"{run_id} against {baseline.id}: {', '.join(listed) or 'all settings are the same'}"
                for run_id, listed in differences_by_run.items()
            ),
            *(_judged_otherwise(run, baseline) for run, _ in compared if run.judged_by != baseline.judged_by),
            *([Note(f"Differences in {tested[0]} drawn to {plot}")] if plot else []),
            *(Note(f"Table written to {file}") for file in files),
        ],
    )


def _judged_otherwise(run: LoggedRun, other: LoggedRun) -> Alert:
    return Alert(f"{run.id} and {other.id} were scored by different judgements; part of the difference is theirs")


@command.command("pairs", short_help="Print or write an evaluation's matrix of language pairs.")
@click.argument("run_id", metavar="RUN", shell_complete=completion.runs)
@click.option("--against", default="", metavar="RUN", help="Test each pair against this evaluation's.")
@click.option("--measure", default="", metavar="NAME", help="What the cells show.  [default: the first]")
@_tables_option("Write the matrix here, as .csv, .tex, .png, .svg or .pdf; may be given several times.")
@common_options
def pairs_of_run(
    run_id: str, against: str, measure: str, files: tuple[Path, ...], settings: Settings, console: Console
) -> None:
    """Print an evaluation's matrix of pairs: topics in each language against documents in each language.

    The evaluation was made with --pairs; a run of PSQ, such as 7.all-psq, stands for the pairs of PSQ. With --against
    each pair is tested by the randomisation test, corrected by Holm over the pairs that both have: ▲ is significantly
    higher, ▼ lower.
    """
    engine = click.get_current_context().with_resource(open_database(settings.database))
    run = evaluation_log.find(engine, run_id)
    other = evaluation_log.find(engine, against) if against else None
    for file in files:
        require_writable(file, MATRICES)
    matrix = pair_matrix(
        run.matrix_name,
        standard_name(measure) if measure else next(iter(run.means)),
        evaluation_log.pairs(engine, run),
        other.matrix_name if other else "",
        evaluation_log.pairs(engine, other) if other else (),
    )
    for file in files:
        write_matrix(matrix, file)
    parts = list(matrix_parts(matrix))
    if other and run.setup.qrels_hash != other.setup.qrels_hash:
        parts.append(_judged_otherwise(run, other))
    parts += [Note(f"Matrix written to {file}") for file in files]
    console.show({**pair_matrix_json(matrix), "files": files}, parts)


def _measures(runs: Sequence[LoggedRun], names: str) -> list[str]:
    shared = [name for name in runs[0].means if all(name in run.means for run in runs)]
    named = [standard_name(name) for name in MEASURE_NAME.findall(names)]
    if OWN_LANGUAGE in named and len({run.targets for run in runs}) > 1:
        raise BadInput(
            f"{OWN_LANGUAGE} is of as many hits as languages were searched, and these runs searched different numbers; "
            "compare runs with the same --to"
        )
    if unknown := [name for name in named if name not in shared]:
        raise BadInput(f"the runs do not all have {unknown[0]!r}; they share {', '.join(shared) or 'no measure'}")
    if not shared:
        raise BadInput("these runs share no measure; evaluate them with the same --measures")
    return named or [name for name in shared if name != JUDGED and not is_fairness(name)] or shared


@command.command("export", short_help="Write a run's ranking in TREC format.")
@click.argument("run_id", metavar="RUN", shell_complete=completion.runs)
@click.option("-o", "--output", type=FILE, help="File to write.  [default: stdout]")
@files_option(
    "--qrels", "qrel_files", "The judgements that scored it; written to OUTPUT.qrels with the run's topic ids."
)
@common_options
def export_run(
    run_id: str, output: Path | None, qrel_files: tuple[str, ...], settings: Settings, console: Console
) -> None:
    """Write a run's ranking in TREC format; whitespace in ids is percent-encoded.

    With --qrels trec_eval gives the logged figures: trec_eval -c OUTPUT.qrels OUTPUT.
    """
    if qrel_files and not output:
        raise click.UsageError("--qrels needs --output, beside which the judgements are written")
    engine = click.get_current_context().with_resource(open_database(settings.database))
    run = evaluation_log.find(engine, run_id)
    lines = evaluation_log.export(engine, run_id)
    if output:
        qrels = expand(qrel_files, "qrels")
        judgements = _write_judgements(engine, run, output, qrels, settings, console) if qrels else None
        write_lines(output, lines)
        values = {"run": run.id, "file": output, "qrels": judgements}
        console.show(values, [Note(f"Run {run.id} written to {output}")])
    elif console.json:
        console.show({"run": run.id, "trec": "".join(lines)})
    else:
        for line in lines:
            click.echo(line, nl=False)


def _write_judgements(
    engine: sa.Engine, run: LoggedRun, output: Path, qrels: Sequence[Path], settings: Settings, console: Console
) -> Path:
    judgements = output.with_name(f"{output.name}.qrels")
    if run.reproduced:
        raise BadInput(
            f"run {run.id} is of a table of python -m papers, whose data has the judgements; export it without --qrels"
        )
    for written in (judgements, output):
        if any(written.resolve() == read.resolve() for read in qrels):
            raise BadInput(f"{written} holds the judgements that are read, and would be overwritten; name another -o")
        require_writable(written)
    if content_hash(qrels) != run.setup.qrels_hash:
        console.warn(f"run {run.id} was scored by other qrels, or by these in another order")
    collection = run.judged_by[1] is not None and collections.find(engine, run.setup.collection)
    ranked = set() if collection else {own_id(line.split(" ", 3)[2]) for line in evaluation_log.export(engine, run.id)}
    stored = partial(document_languages, engine, run.setup.collection, settings)
    judged = Judgements.of(read_qrels(qrels), stored if collection else lambda ids: dict.fromkeys(ids & ranked, ""))
    langs = judged.langs if collection else None
    lines = list(evaluation_log.export_judgements(engine, run.id, judged.qrels, langs))
    if not lines:
        raise BadInput(f"these qrels judge none of the topics of run {run.id}; give those that scored it")
    write_lines(judgements, lines)
    console.say(f"Judgements of run {run.id} written to {judgements}")
    return judgements
