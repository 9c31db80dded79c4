"""``dragoman report``: one page of HTML on a collection's bias, fairness and scores, or on somebody's index."""

from __future__ import annotations

from pathlib import Path

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from query.commands.options.common_options import common_options, searched_collection_option, server_address
from query.commands.options.help import Command
from query.commands.options.option_types import FILE
from query.commands.options.search_options import files_option
from query.trec_files.file_patterns import expand


@click.command("report", cls=Command)
@searched_collection_option("The collection to show.", unless="index")
@click.option("-o", "--output", type=FILE, help="File to write.  [default: NAME-report.html in this folder]")
@click.option("--index", metavar="INDEX", help="Look at an index of --store instead, or at the indices of a pattern.")
@click.option("--vector", metavar="FIELD", default="", help="The index's field of vectors.  [default: if it has one]")
@click.option("--text", metavar="FIELD", default="", help="The index's field of texts.  [default: the longest]")
@click.option("--lang-field", metavar="FIELD", default="", help="Its field of languages.  [default: detected]")
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
    index: str | None,
    vector: str,
    text: str,
    lang_field: str,
    settings: Settings,
    console: Console,
) -> None:
    """Write one HTML page with pictures, to be opened in any browser: it needs no network.

    The pictures show the languages in the plane before and after the calibration, whether a classifier can tell them
    apart, what the balance does, which languages find which, and the newest evaluation. If an evaluation of the same
    topics ranked in another way, for example by plain cosine, the two are compared.

    With --index nothing is written on the server, and no collection is needed. If the index has vectors of its own,
    documents ask as queries, and the page shows how much of the first ten hits is in the query's own language. If it
    has none, the page shows its languages and lengths, and what attaching would cost in hours and gigabytes.
    """
    if index:
        from query.report.index_look import Asked, look  # noqa: PLC0415

        server = server_address(settings).server
        look(Asked(server, settings.credentials, index, text, lang_field, vector), output, console)
        return
    from query.report.compose import report  # noqa: PLC0415 - NumPy and the database, which --help does not need

    file, qrels = output or Path(f"{name}-report.html"), expand(qrel_files, "qrels")
    path = report(name, settings, file, evaluation=evaluation, qrels=qrels, console=console).absolute()
    console.show({"collection": name, "report": path}, f"The report on {name} is written to {path}")
