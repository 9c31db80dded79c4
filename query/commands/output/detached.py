"""What is said after an index was detached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from encoders.console import Console
from encoders.wording import counted
from indexer.collection.collection import Collection
from indexer.stores.attached.address import Attachment

if TYPE_CHECKING:
    from indexer.stores.attached.same_index import Detached


def show_detached(collection: Collection, detached: Sequence[Detached], console: Console, *, forget: bool) -> None:
    """Say what was taken from an attached index, and what stays there."""
    name, kept = collection.name, Attachment.parse(collection.store)
    left = "" if kept.companion else f"{kept.field}.models.{collection.model}.vector"
    console.emit(
        {
            "collection": name,
            "index": kept.index,
            "emptied": sum(one.emptied for one in detached),
            "kept": sum(one.kept for one in detached),
            "indices": [asdict(one) for one in detached],
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
    for one in detached:
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
