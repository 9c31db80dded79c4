"""``dragoman similar``: the documents most similar to a document of a collection, in other languages."""

from __future__ import annotations

import click

from encoders.console import Console
from encoders.languages import typed_languages
from indexer.collection.settings import Settings
from query.commands import completion
from query.commands.help import Command
from query.commands.options import collection_option, common_options, filter_option
from query.commands.output.hits import show_hits
from query.ranking.search_hits import as_json


@click.command("similar", cls=Command)
@click.argument("doc_id", metavar="ID")
@collection_option("The document's collection.")
@click.option(
    "--to",
    help="Languages of the similar documents, with commas: en,fr.  [default: all but the document's own]",
    shell_complete=completion.languages,
)
@click.option(
    "-k", "--limit", "k", type=click.IntRange(1, 10_000), default=10, show_default=True, help="How many documents."
)
@filter_option
@common_options
def command(
    doc_id: str,
    name: str,
    to: str | None,
    k: int,
    filters: dict[str, list[str]] | None,
    settings: Settings,
    console: Console,
) -> None:
    """Find the documents that are most similar to the document ID, in other languages, best first.

    Documents are compared by their stored vectors, after each language's own component is subtracted, and in the common
    space if the calibration has one.
    """
    languages = None if to is None else typed_languages(to)
    with console.waiting("starting"):
        from query.ranking.searcher import Searcher  # noqa: PLC0415 - a second of imports

    with Searcher.open(
        name, settings, device="cpu", console=console, to=languages, filters=filters, queries=False
    ) as searcher:
        hits = searcher.similar(doc_id, to=languages, k=k, filters=filters)
    console.emit({"id": doc_id, "lang": hits.lang, "collection": name, "hits": [as_json(hit) for hit in hits]})
    show_hits(hits, console)
    if not hits:
        console.result("nothing found" + (": no document passes the filter" if filters else ""))
