"""``dragoman detach``: remove what ``attach`` added to a user's index."""

from __future__ import annotations

import click

from encoders.console import Console
from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.attached.attached_address import is_attached
from query.collections.removal import remove_collection
from query.commands.help import Command
from query.commands.options import collection_option, common_options
from query.commands.output.detached import show_detached


@click.command("detach", cls=Command)
@collection_option("The attached collection.", from_environment=False)
@click.option("--forget", is_flag=True, help="Leave what is attached where it is: the server is gone for good.")
@common_options
def command(name: str, forget: bool, settings: Settings, console: Console) -> None:
    """Remove what attach added to an index, and delete the collection.

    Its runs, calibrations, logged evaluations and logged queries are deleted too. After an interruption, give the same
    command again.

    The owner's fields do not change. Until the owner reindexes, _source keeps our field as null and the mapping keeps
    the empty field; the command names the field. A companion index is deleted.
    """
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        if not is_attached(collection.store):
            raise BadInput(f"collection {name} is not attached to an index; remove it: dragoman delete --all -c {name}")
        detached = remove_collection(engine, collection, settings, forget=forget)
    show_detached(collection, detached, console, forget=forget)
