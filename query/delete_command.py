"""``dragoman delete``: documents, or a whole collection with everything that belongs to it."""

from __future__ import annotations

import click

from encoders.console import Console, output_options
from encoders.errors import BadInput
from indexer import collection as collections
from indexer.database import connect
from indexer.settings import Settings, place_options
from indexer.stores import open_store
from query import history


@click.command("delete", short_help="Remove documents, or a whole collection.")
@click.argument("doc_ids", nargs=-1, metavar="[ID…]")
@click.option("-c", "--collection", "name", required=True, help="The collection to remove from.")
@click.option("--all", "everything", is_flag=True, help="Remove the collection with everything that belongs to it.")
@place_options
@output_options
def command(
    doc_ids: tuple[str, ...],
    name: str,
    everything: bool,
    settings: Settings,
    console: Console,
) -> None:
    """Remove the documents with these IDs from a collection, or with --all the whole of it.

    With the whole go its index runs and its logged evaluations; export what you want to keep: dragoman runs export.
    """
    if everything == bool(doc_ids):
        raise click.UsageError("name the documents to remove, or give --all, and not both")
    engine = connect(settings.database)
    collection = collections.require(engine, name)
    if everything:
        collections.remove(engine, collection)
        history.forget(engine, name)
        console.emit({"collection": name, "collection_deleted": True})
        console.result(f"{name} is gone, with everything that belonged to it")
        return
    opened = open_store(collection.store, name)
    try:
        deleted = opened.delete(doc_ids)
    finally:
        opened.close()
    if not deleted:
        raise BadInput(f"collection {name} has none of these documents; search shows ids in brackets")
    console.emit({"collection": name, "deleted": deleted, "collection_deleted": False})
    console.result(f"{deleted:,} of {len(set(doc_ids)):,} documents deleted from {name}")
