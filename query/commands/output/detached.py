"""Messages after an index was detached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from encoders.console import Console
from encoders.wording import counted
from indexer.collection.collection import Collection
from indexer.stores.attached.attached_address import Attachment

if TYPE_CHECKING:
    from indexer.stores.attached.in_place import Detached


def show_detached(collection: Collection, indices: Sequence[Detached], console: Console, *, forget: bool) -> None:
    """Show what was removed from an attached index, and what stays there."""
    name, attachment = collection.name, Attachment.parse(collection.store)
    remaining_field = "" if attachment.companion else f"{attachment.field}.models.{collection.model}.vector"
    console.emit(
        {
            "collection": name,
            "index": attachment.index,
            "emptied": sum(index.emptied for index in indices),
            "kept": sum(index.kept for index in indices),
            "indices": [asdict(index) for index in indices],
            "left_in_mapping": remaining_field or None,
            "forgotten": forget,
        }
    )
    if forget:
        companion = f"the companion {attachment.companion}-{name}-000001"
        remaining = companion if attachment.companion else f"{attachment.field} in {attachment.index}"
        console.result(f"{name} is forgotten; {remaining} stays on {attachment.server}, if that is ever back")
        return
    if attachment.companion:
        console.result(f"{name} is deleted with its companion index; nothing was ever written into {attachment.index}")
    remaining = f"{attachment.field} with {remaining_field} ({collection.dim} numbers)"
    for index in indices:
        _show_index(index, name, remaining, attachment.field, console)


def _show_index(index: Detached, name: str, remaining: str, field: str, console: Console) -> None:
    if index.gone:
        console.result(
            f"{name} is deleted; {index.index} no longer exists or another index has its name, so nothing was removed"
        )
        return
    console.result(
        f"{name} is detached; the field {field} was emptied in {counted(index.emptied, 'document')} of {index.index}"
    )
    if index.kept:
        console.result(
            f"  {counted(index.kept, 'document keeps', 'documents keep')} the field: the versions are the owner's, and "
            "an update by Dragoman would make the server refuse the owner's next write; the field goes when the owner "
            "writes the documents again"
        )
    console.result(
        f'  the emptied documents keep "{field}": null in _source, and the mapping of {index.index} keeps the empty '
        f"field {remaining}, until the owner reindexes"
    )
