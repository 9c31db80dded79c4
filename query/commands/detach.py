"""``dragoman detach``: take back what ``attach`` added to somebody else's index."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.attaching.attach import detach
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.database import opened
from indexer.settings import Settings
from indexer.stores.attached.address import Attachment, is_attached
from query.calibration import table as calibration_table
from query.commands.options import output_options, place_options
from query.evaluation import history
from query.query_log import judged_queries as clicks

if TYPE_CHECKING:
    from indexer.stores.attached.same_index import Detached


@click.command("detach", short_help="Take back what attach added to an index.")
@click.option("-c", "--collection", "name", required=True, help="The attached collection.")
@click.option("--forget", is_flag=True, help="Leave what is attached where it is: the server is gone for good.")
@place_options
@output_options
def command(name: str, forget: bool, settings: Settings, console: Console) -> None:
    """Empty our field in every document of an attached index, and forget the collection.

    With it go its runs, calibrations, logged evaluations and logged queries. Their documents stay as they are.
    Interrupted, the same command does the rest. Our field stays as null in their sources, and what a mapping holds
    stays, until the owner indexes anew; the command says what that is.
    """
    with opened(settings.database) as engine:
        collection = collections.require(engine, name)
        if not is_attached(collection.store):
            raise BadInput(f"collection {name} is not attached to an index; remove it: dragoman delete --all -c {name}")
        take_back(engine, collection, settings, console, forget=forget)


def take_back(engine: sa.Engine, collection: Collection, settings: Settings, console: Console, *, forget: bool) -> None:
    """Detach a collection, and say what was done and what stays."""
    name, kept = collection.name, Attachment.parse(collection.store)
    done = detach(engine, collection, settings, forget=forget)
    history.forget(engine, name)
    calibration_table.forget(engine, name)
    clicks.forget(engine, name)
    left = "" if kept.companion else f"{kept.field}.models.{collection.model}.vector"
    console.emit(
        {
            "collection": name,
            "index": kept.index,
            "emptied": sum(one.emptied for one in done),
            "kept": sum(one.kept for one in done),
            "indices": [asdict(one) for one in done],
            "left_in_mapping": left or None,
            "forgotten": forget,
        }
    )
    if forget:
        what = f"the companion {kept.companion}-{name}-000001" if kept.companion else f"{kept.field} in {kept.index}"
        console.result(f"{name} is forgotten; {what} stays on {kept.server}, if that is ever back")
        return
    if kept.companion:
        console.result(f"{name} is gone with its companion index; nothing was ever written into {kept.index}")
    for one in done:
        _tell(one, name, f"{kept.field} with {left} ({collection.dim} numbers)", kept.field, console)


def _tell(done: Detached, name: str, mapped: str, field: str, console: Console) -> None:
    if done.gone:
        console.result(f"{name} is gone; {done.index} is there no more, and nothing was to be taken from it")
        return
    console.result(f"{name} is gone: {field} emptied in {counted(done.emptied, 'document')} of {done.index}")
    if done.kept:
        console.result(
            f"  {counted(done.kept, 'document keeps', 'documents keep')} it: the versions are the owner's, whose next "
            "write would be refused after one of ours; it goes when the owner writes them anew"
        )
    console.result(
        f'  each of them keeps "{field}": null in its _source, and a mapping what it has: the empty field '
        f"{mapped} stays in {done.index} until its owner indexes anew"
    )
