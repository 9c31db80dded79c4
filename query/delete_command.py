"""``dragoman delete``: documents, or a whole collection with everything that belongs to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import sqlalchemy as sa

from encoders.console import Console, output_options
from encoders.errors import BadInput
from indexer import collection as collections
from indexer.database import opened
from indexer.indexing import alone
from indexer.settings import Settings, place_options
from query import calibration_table, clicks, history


@click.command("delete", short_help="Remove documents, or a whole collection.")
@click.argument("doc_ids", nargs=-1, metavar="[ID…]")
@click.option("-c", "--collection", "name", required=True, help="The collection to remove from.")
@click.option("--all", "everything", is_flag=True, help="Remove the collection with everything that belongs to it.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask before a whole collection goes.")
@place_options
@output_options
def command(
    doc_ids: tuple[str, ...],
    name: str,
    everything: bool,
    yes: bool,
    settings: Settings,
    console: Console,
) -> None:
    """Remove the documents with these IDs from a collection, or with --all the whole of it.

    With the whole go its index runs, calibrations, logged evaluations and logged queries; export what you want to keep:
    dragoman runs export.
    """
    if everything == bool(doc_ids):
        raise click.UsageError("name the documents to remove, or give --all, and not both")
    with opened(settings.database) as engine:
        _delete(engine, doc_ids, name, settings, console, everything=everything, asks=not yes and sys.stdin.isatty())


def _delete(
    engine: sa.Engine,
    doc_ids: Sequence[str],
    name: str,
    settings: Settings,
    console: Console,
    *,
    everything: bool,
    asks: bool,
) -> None:
    collection = collections.require(engine, name)
    settings.check_store(name, collection.store or settings.home_store)
    if everything:
        if asks:
            click.confirm(f"Remove {name} with its documents, runs and evaluations?", abort=True, err=True)
        with alone(settings, name):
            collections.remove(engine, collection, settings)
        history.forget(engine, name)
        calibration_table.forget(engine, name)
        clicks.forget(engine, name)
        console.emit({"collection": name, "collection_deleted": True})
        console.result(f"{name} is gone, with everything that belonged to it")
        return
    store = collection.open_store(settings)
    try:
        deleted = store.delete(doc_ids)
    finally:
        store.close()
    if not deleted:
        raise BadInput(f"collection {name} has none of these documents; search shows ids in brackets")
    console.emit({"collection": name, "deleted": deleted, "collection_deleted": False})
    console.result(f"{deleted:,} of {len(set(doc_ids)):,} documents deleted from {name}")
