"""``dragoman report``: one page of HTML that shows a collection's bias, fairness and scores in pictures."""

from __future__ import annotations

from pathlib import Path

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from query.commands.options.common_options import common_options, searched_collection_option
from query.commands.options.help import Command
from query.commands.options.option_types import FILE
from query.commands.options.search_options import files_option
from query.trec_files.file_patterns import expand


@click.command("report", cls=Command)
@searched_collection_option("The collection to show.")
@click.option("-o", "--output", type=FILE, help="File to write.  [default: NAME-report.html in this folder]")
@click.option(
    "--evaluation", type=click.IntRange(min=1), metavar="N", help="Evaluation to show.  [default: the newest]"
)
@files_option("--qrels", "qrel_files", "Its judgements, for MAP by pair of languages.")
@common_options
def command(
    name: str,
    output: Path | None,
    evaluation: int | None,
    qrel_files: tuple[str, ...],
    settings: Settings,
    console: Console,
) -> None:
    """Write one HTML page with pictures, to be opened in any browser: it needs no network.

    The pictures show the languages in the plane before and after the calibration, whether a classifier can tell them
    apart, what the balance does, which languages find which, and the newest evaluation. If an evaluation of the same
    topics ranked in another way, for example by plain cosine, the two are compared.
    """
    from query.report.compose import report  # noqa: PLC0415 - NumPy and the database, which --help does not need

    file, qrels = output or Path(f"{name}-report.html"), expand(qrel_files, "qrels")
    path = report(name, settings, file, evaluation=evaluation, qrels=qrels, console=console).absolute()
    console.show({"collection": name, "report": path}, f"The report on {name} is written to {path}")
