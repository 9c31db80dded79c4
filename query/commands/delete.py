"""``dragoman delete``: documents, or a whole collection with everything that belongs to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.attached.attached_address import is_attached
from query.collections.removal import remove_collection, remove_documents
from query.commands.help import Command
from query.commands.options import collection_option, common_options
from query.commands.output.detached import show_detached


@click.command("delete", cls=Command)
@click.argument("doc_ids", nargs=-1, metavar="[ID…]")
@collection_option("The collection to remove from.", from_environment=False)
@click.option("--all", "everything", is_flag=True, help="Remove the collection with everything that belongs to it.")
@click.option("--forget", is_flag=True, help="With --all: leave its store where it is; the server is gone for good.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask before a whole collection goes.")
@common_options
def command(
    doc_ids: tuple[str, ...], name: str, everything: bool, forget: bool, yes: bool, settings: Settings, console: Console
) -> None:
    """Remove the documents with these IDs from a collection, or with --all the whole of it.

    --all also removes the collection's index runs, calibrations, logged evaluations and logged queries; first export
    what you want to keep: dragoman runs export.
    """
    if everything == bool(doc_ids):
        raise click.UsageError("name the documents to remove, or give --all, and not both")
    if forget and not everything:
        raise click.UsageError("--forget applies to a whole collection; give --all with it")
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        collection.check_store(settings)
        if everything:
            _delete_collection(engine, collection, settings, console, forget=forget, ask=not yes)
        else:
            _delete_documents(engine, collection, doc_ids, settings, console)


def _delete_collection(
    engine: sa.Engine, collection: Collection, settings: Settings, console: Console, *, forget: bool, ask: bool
) -> None:
    name, attached = collection.name, is_attached(collection.store)
    removed = "what was attached (their documents stay)" if attached else "its documents"
    if ask and not (sys.stdin and sys.stdin.isatty()):
        raise BadInput(f"nobody can be asked whether {name} with {removed} may go; give -y to remove it without asking")
    if ask and not click.confirm(f"Remove {name} with {removed}, runs and evaluations?", err=True):
        console.emit({"collection": name, "collection_deleted": False})
        console.say("nothing was removed")
        raise click.exceptions.Exit(1)
    detached = remove_collection(engine, collection, settings, forget=forget)
    if attached:
        show_detached(collection, detached, console, forget=forget)
        return
    console.emit({"collection": name, "collection_deleted": True, "forgotten": forget})
    if forget:
        console.result(f"{name} is forgotten; what it has in {collection.place(settings)} stays there")
    else:
        console.result(f"{name} is gone, with everything that belonged to it")


def _delete_documents(
    engine: sa.Engine, collection: Collection, doc_ids: Sequence[str], settings: Settings, console: Console
) -> None:
    name = collection.name
    deleted = remove_documents(engine, collection, doc_ids, settings)
    console.emit({"collection": name, "deleted": deleted, "collection_deleted": False})
    console.result(f"{deleted:,} of {counted(len(set(doc_ids)), 'document')} deleted from {name}")
