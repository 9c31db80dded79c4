"""``dragoman delete``: documents, or a whole collection with all that belongs to it; ``detach``: what attach added."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import sqlalchemy as sa

from encoders.console import Console, Part
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from indexer.stores.attached.attached_address import Attachment, is_attached
from query.collections.removal import remove_collection, remove_documents
from query.commands.options.common_options import collection_option, common_options
from query.commands.options.help import Command

if TYPE_CHECKING:
    from indexer.stores.attached.in_place import Detached


@click.command("delete", cls=Command)
@click.argument("doc_ids", nargs=-1, metavar="[ID…]")
@collection_option("The collection to remove from.", required=True)
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
            return
        deleted = remove_documents(engine, collection, doc_ids, settings)
    sentence = f"{deleted:,} of {counted(len(set(doc_ids)), 'document')} deleted from {name}"
    console.show({"collection": name, "deleted": deleted, "collection_deleted": False}, sentence)


@click.command("detach", cls=Command)
@collection_option("The attached collection.", required=True)
@click.option("--forget", is_flag=True, help="Leave what is attached where it is: the server is gone for good.")
@common_options
def detach(name: str, forget: bool, settings: Settings, console: Console) -> None:
    """Remove what attach added to an index, and delete the collection.

    Its runs, calibrations, logged evaluations and logged queries are deleted too. After an interruption, give the same
    command again.

    Documents are as they were before. Until the owner reindexes, the mapping keeps the empty field, which the command
    names. A companion index is deleted.
    """
    with open_database(settings.database) as engine:
        collection = collections.require(engine, name)
        if not is_attached(collection.store):
            raise BadInput(f"collection {name} is not attached to an index; remove it: dragoman delete --all -c {name}")
        detached = remove_collection(engine, collection, settings, forget=forget)
    _show_detached(collection, detached, console, forget=forget)


def _delete_collection(
    engine: sa.Engine, collection: Collection, settings: Settings, console: Console, *, forget: bool, ask: bool
) -> None:
    name, attached = collection.name, is_attached(collection.store)
    removed = "what was attached (their documents stay)" if attached else "its documents"
    if ask and not (sys.stdin and sys.stdin.isatty()):
        raise BadInput(f"nobody can be asked whether {name} with {removed} may go; give -y to remove it without asking")
    if ask and not click.confirm(f"Remove {name} with {removed}, runs and evaluations?", err=True):
        console.show({"collection": name, "collection_deleted": False})
        console.say("nothing was removed")
        raise click.exceptions.Exit(1)
    detached = remove_collection(engine, collection, settings, forget=forget)
    if attached:
        _show_detached(collection, detached, console, forget=forget)
        return
    stays = f"is forgotten; what it has in {collection.place(settings)} stays there"
    sentence = f"{name} {stays if forget else 'is gone, with everything that belonged to it'}"
    console.show({"collection": name, "collection_deleted": True, "forgotten": forget}, sentence)


def _show_detached(collection: Collection, indices: "Sequence[Detached]", console: Console, *, forget: bool) -> None:
    attachment = Attachment.parse(collection.store)
    remaining_field = "" if attachment.companion else f"{attachment.field}.models.{collection.model}.vector"
    values = {
        "collection": collection.name,
        "index": attachment.index,
        "emptied": sum(index.emptied for index in indices),
        "kept": sum(index.kept for index in indices),
        "indices": indices,
        "left_in_mapping": remaining_field or None,
        "forgotten": forget,
    }
    console.show(values, _detached_parts(collection, attachment, indices, remaining_field, forget=forget))


def _detached_parts(
    collection: Collection, attachment: Attachment, indices: "Sequence[Detached]", remaining_field: str, *, forget: bool
) -> Iterator[Part]:
    name, field = collection.name, attachment.field
    if forget:
        companion = f"the companion {attachment.companion}-{name}-000001"
        remaining = companion if attachment.companion else f"{field} in {attachment.index}"
        yield f"{name} is forgotten; {remaining} stays on {attachment.server}, if that is ever back"
        return
    if attachment.companion:
        yield f"{name} is deleted with its companion index; nothing was ever written into {attachment.index}"
    for index in indices:
        if index.gone:
            reason = f"{index.index} no longer exists or another index has its name"
            yield f"{name} is deleted; {reason}, so nothing was removed"
            continue
        emptied = counted(index.emptied, "document")
        yield f"{name} is detached; the field {field} was removed from {emptied} of {index.index}"
        if index.kept:
            yield (
                f"  {counted(index.kept, 'document keeps', 'documents keep')} the field: the versions are the owner's, "
                "and an update by Dragoman would make the server refuse the owner's next write; the field goes when "
                "the owner writes the documents again"
            )
        yield (
            f"  the mapping of {index.index} keeps the empty field {field} with {remaining_field} "
            f"({collection.dim} numbers), until the owner reindexes"
        )
