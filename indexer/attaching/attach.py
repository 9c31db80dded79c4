"""Attach a collection to somebody else's index, open it again, take it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.session import Device
from indexer.attaching.catch_up import AttachReport, catch_up
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.elastic import connection
from indexer.index import collection_lock
from indexer.ledger import attach_ledger
from indexer.ledger.database import connect, owner_of
from indexer.settings import Settings
from indexer.stores.attached import entry_checks
from indexer.stores.attached.address import Attachment, is_attached
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.elastic.store import check_name
from indexer.stores.factory import open_attached
from onnx_export.models import DEFAULT, absolute, open_named

if TYPE_CHECKING:
    from indexer.stores.attached.same_index import Detached


@dataclass
class Attaching:
    """A collection that is attached to somebody else's index, opened to keep up with it.

    Attributes:
        collection: its name.
        attachment: where that index is.
        encoder: makes the vectors.
    """

    collection: str
    attachment: Attachment
    encoder: Encoder
    engine: sa.Engine
    settings: Settings
    console: Console

    @classmethod
    @contextmanager
    def open(
        cls,
        name: str,
        attachment: Attachment | None = None,
        *,
        settings: Settings | None = None,
        encoder: str | None = None,
        method: str | None = None,
        device: Device = "auto",
        console: Console | None = None,
    ) -> Iterator[Self]:
        """Open an attached collection, or attach a new one; no other process of this home keeps up meanwhile.

        Args:
            name: of the collection.
            attachment: what to attach it to; where it is attached to unless given.
            settings: where things are; read from the environment unless given.
            encoder: name or folder; the collection's own, or the default, unless given.
            method: how a document's vector is made; the collection's own, or the encoder's default, unless given.
            device: where to encode.
            console: where progress goes; nowhere unless given.

        Raises:
            BadInput: the index can't be attached to, or the collection is another one.
            ModelMismatch: the collection holds vectors of another encoder or method.
            StoreError: the server is away or refuses.
        """
        settings = settings or Settings.read()
        console = console or Console(quiet=True)
        engine = connect(settings.database)
        try:
            found = collections.find(engine, name)
            attachment = _same(name, found, attachment)
            reference = absolute(encoder or (found.encoder if found else DEFAULT))
            loaded = open_named(reference, method or (found.method if found else None), console, device=device)
            if found:
                found.check(loaded.spec)
            else:
                if attachment.companion:
                    check_name(name)
                with connection.connect(attachment.server, settings.credentials) as client:
                    users = UsersIndex.open(client, attachment)
                    _refuse_shared_field(engine, users)
                    entry_checks.check(client, users, loaded.spec.model)
            with collection_lock(settings, name):
                if not found:
                    collections.register(engine, name, replace(settings, store=attachment.url), reference, loaded.spec)
                yield cls(name, attachment, loaded, engine, settings, console)
        finally:
            engine.dispose()

    def catch_up(self) -> AttachReport:
        """Make passes until nothing is left to do.

        Raises:
            BadInput: the index has become one that can't be attached to.
            StoreError: server or database failed; what is done stays done.
        """
        who, owner = self.settings.credentials, owner_of(self.engine)
        with closing(open_attached(self.attachment, self.collection, who, make=True, owner=owner)) as store:
            return catch_up(store, self.encoder, self.engine, self.collection, console=self.console)


def detach(engine: sa.Engine, collection: Collection, settings: Settings, *, forget: bool = False) -> list[Detached]:
    """Take back what was attached, and forget the collection; returns what was done in each index that got vectors.

    Args:
        engine: database that has it.
        collection: the attached collection.
        settings: where things are.
        forget: leave what is attached where it is, and ask no server.

    Raises:
        StoreError: the server is away or refuses, or another process keeps up with the index; give the same call again.
    """
    with collection_lock(settings, collection.name):
        done = []
        kept = Attachment.parse(collection.store)
        if not (kept.companion or forget):
            from indexer.stores.attached.same_index import detach as empty  # noqa: PLC0415 - half a second

            for uuid, index in attach_ledger.remembered(engine, collection.name) or [("", kept.index)]:
                done.append(empty(kept, settings.credentials, index=index, uuid=uuid))
        collections.remove(engine, collection, settings, forget=forget)
    return done


def _refuse_shared_field(engine: sa.Engine, users: UsersIndex) -> None:
    """Two collections in one field would take each other's vectors for those of their own texts."""
    mine = users.attachment
    for row in collections.every(engine):
        theirs = Attachment.parse(row.store) if is_attached(row.store) else None
        if theirs is None or mine.companion or theirs.companion:
            continue
        if (theirs.server, theirs.field) == (mine.server, mine.field) and theirs.index in users.names:
            raise BadInput(
                f"{mine.index} has vectors of collection {row.name} in {mine.field!r} already; "
                "name another field with --field"
            )


def _same(name: str, found: Collection | None, given: Attachment | None) -> Attachment:
    if found is None:
        if given is None:
            raise BadInput(
                f"there is no collection {name}; say what to attach it to: "
                f"dragoman attach INDEX -c {name} --store https://HOST:9200 --text FIELD"
            )
        return given
    if not is_attached(found.store):
        raise BadInput(f"collection {name} is not attached to an index; take another name with -c")
    kept = Attachment.parse(found.store)
    if given and given != kept:
        raise BadInput(
            f"collection {name} is attached to {found.store}; detach it first (dragoman detach -c {name}), "
            "or take another name with -c"
        )
    return kept
