"""``dragoman report``: one page of HTML on a collection's bias, or on somebody's index."""

from pathlib import Path

import click

from encoders.console import Console
from indexer.collection.settings import Settings
from query.commands.options.common_options import (
    common_options,
    searched_collection_option,
    server_address,
    stated_options,
)
from query.commands.options.help import Command
from query.commands.options.option_types import FILE

_OF_A_COLLECTION, _OF_AN_INDEX = ("name", "evaluation"), ("vector", "text", "lang_field")
"""Parameters without a meaning for the other."""


@click.command("report", cls=Command)
@searched_collection_option("The collection to show.", unless="index")
@click.option("-o", "--output", type=FILE, help="File to write.  [default: NAME-report.html in this folder]")
@click.option("--index", metavar="INDEX", help="Show an index of --store instead, or a pattern's indices.")
@click.option("--vector", metavar="FIELD", default="", help="The index's field of vectors.  [default: the only one]")
@click.option("--text", metavar="FIELD", default="", help="The index's field of texts.  [default: the longest]")
@click.option("--lang-field", metavar="FIELD", default="", help="The index's field of languages.  [default: detected]")
@click.option(
    "--evaluation", type=click.IntRange(min=1), metavar="N", help="Evaluation to show.  [default: the newest]"
)
@common_options
def command(
    name: str,
    output: Path | None,
    evaluation: int | None,
    index: str | None,
    vector: str,
    text: str,
    lang_field: str,
    settings: Settings,
    console: Console,
) -> None:
    """Write one HTML page with pictures, to be opened in any browser: it needs no network.

    The pictures show the languages in the plane before and after the calibration, what the balance does, and which
    languages find which; a table has the newest evaluation. dragoman study compares rankings.

    With --index the page is about an index, and nothing is written there. If the index has vectors, documents ask as
    queries: how much of the first ten hits is in the query's own language? Else: languages, lengths, and what attaching
    would cost.
    """
    if stated := stated_options(_OF_A_COLLECTION if index else _OF_AN_INDEX):
        why = "--index shows no collection;" if index else "name the --index too, or"
        raise click.UsageError(f"{why} leave {', '.join(stated)} out")
    if index:
        from query.report.index_look import LookTarget, look  # noqa: PLC0415

        server = server_address(settings).server
        look(LookTarget(server, settings.credentials, index, text, lang_field, vector), output, console)
        return
    from query.report.compose import report  # noqa: PLC0415 - NumPy and the database, which --help does not need

    file = output or Path(f"{name}-report.html")
    path = report(name, settings, file, evaluation=evaluation, console=console).absolute()
    console.show({"collection": name, "report": path}, f"The report on {name} is written to {path}")
