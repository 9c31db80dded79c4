"""``dragoman detach``: take back what ``attach`` added to somebody else's index."""

from __future__ import annotations

import click

from encoders.console import Console, output_options
from encoders.errors import BadInput
from indexer import collection as collections
from indexer.attaching import detach
from indexer.database import connect
from indexer.settings import Settings, place_options
from indexer.stores.elastic.attachment import Attachment, is_attached
from query import calibration_table, clicks, history


@click.command("detach", short_help="Take back what attach added to an index.")
@click.option("-c", "--collection", "name", required=True, help="The attached collection.")
@place_options
@output_options
def command(name: str, settings: Settings, console: Console) -> None:
    """Empty our field in every document of an attached index, and forget the collection.

    With it go its runs, calibrations, logged evaluations and logged queries. Their documents stay as they are.
    Interrupted, the same command does the rest. Our field stays as null in their sources, and what a mapping holds
    stays, until the owner indexes anew; the command says what that is.
    """
    engine = connect(settings.database)
    try:
        collection = collections.require(engine, name)
        kept = Attachment.parse(collection.store) if is_attached(collection.store) else None
        if kept is None:
            raise BadInput(f"collection {name} is not attached to an index; remove it: dragoman delete --all -c {name}")
        emptied = detach(engine, collection, settings)
        history.forget(engine, name)
        calibration_table.forget(engine, name)
        clicks.forget(engine, name)
    finally:
        engine.dispose()
    left = "" if kept.companion else f"{kept.field}.models.{collection.model}.vector"
    console.emit({"collection": name, "index": kept.index, "emptied": emptied, "left_in_mapping": left or None})
    if kept.companion:
        console.result(f"{name} is gone with its companion index; nothing was ever written into {kept.index}")
        return
    console.result(f"{name} is gone: {kept.field} emptied in {emptied:,} documents of {kept.index}")
    console.result(
        f'  each of them keeps "{kept.field}": null in its _source, and a mapping what it has: the empty field '
        f"{kept.field} with {left} ({collection.dim} numbers) stays in {kept.index} until its owner indexes anew"
    )
