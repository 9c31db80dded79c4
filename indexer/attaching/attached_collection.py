"""Attach a collection to a user's index, open the collection again, detach it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Self

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.console import QUIET, Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.machine.placement import Device
from indexer.attaching.catch_up import AttachReport, catch_up
from indexer.cluster import cluster_client
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.encoder import open_encoder_of
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import collection_lock
from indexer.ledger import attach_ledger
from indexer.ledger.database import open_database, read_database_id
from indexer.stores.attached import attach_checks
from indexer.stores.attached.attached_address import Attachment, is_attached
from indexer.stores.attached.users_index import UsersIndex
from indexer.stores.clustered.own_index import check_name
from onnx_export.models import DEFAULT, absolute, open_named

if TYPE_CHECKING:
    from indexer.stores.attached.in_place import Detached


@dataclass
class AttachedCollection:
    """An attached collection, opened to catch up with the index it is attached to."""

    collection: str
    attachment: Attachment
    encoder: Encoder
    engine: sa.Engine
    settings: Settings
    console: Console
    lock: Callable[[], None]  # locks the collection again

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
        console: Console = QUIET,
    ) -> Iterator[Self]:
        """Open an attached collection, or attach a new one, locked against other processes that use the same database.

        By default ``attachment``, ``encoder`` and ``method`` are the collection's; a new collection needs an
        attachment. Raises BadInput: the index can't be attached to, or is not the collection's; ModelMismatch: it holds
        another model's vectors.
        """
        settings = settings or Settings.read()
        with open_database(settings.database) as engine, collection_lock(name, engine) as lock:
            collection = collections.find(engine, name)
            attachment = _attachment_of(name, collection, attachment)
            if attachment.companion and not collection:
                check_name(name)
            reference = absolute(encoder or (collection.encoder if collection else DEFAULT))
            if collection:
                loaded = open_encoder_of(collection, console, reference=reference, method=method, device=device)
            else:
                loaded = open_named(reference, method, console, device=device)
                with cluster_client.connect(attachment.server, settings.credentials) as client:
                    cluster_client.abilities(client, attachment.server)  # an unsuitable server is refused first
                    users_index = UsersIndex.open(client, attachment, new=True)
                    attachment = users_index.attachment
                    if users_index.unfit:
                        raise users_index.unfit[0]
                    for index in users_index.members:
                        _refuse_shared_field(engine, name, index)
                        attach_checks.check(client, index, loaded.spec.model)
                collections.register(engine, name, replace(settings, store=attachment.url), reference, loaded.spec)
                try:
                    for index in users_index.members:
                        _refuse_shared_field(engine, name, index)  # another process may have attached meanwhile
                except BadInput:
                    collections.remove(engine, collections.require(engine, name), settings, forget=True)
                    raise
            yield cls(name, attachment, loaded, engine, settings, console, lock)

    def catch_up(self) -> AttachReport:
        """Make passes over the index until every change is encoded; finished work stays stored if a pass fails."""
        self.lock()
        _attachment_of(self.collection, collections.require(self.engine, self.collection), self.attachment)
        credentials, database_id = self.settings.credentials, read_database_id(self.engine)
        location = StoreLocation(self.attachment.url, self.collection, credentials, database_id)
        with closing(location.open_attached(make=True)) as store:
            return catch_up(
                store, self.encoder, self.engine, self.collection,
                checkpoints=self.settings.checkpoints(self.collection), console=self.console,
                check=partial(_refuse_shared_field, self.engine, self.collection), lock=self.lock,
            )  # fmt: skip


def detach(
    engine: sa.Engine,
    collection: Collection,
    settings: Settings,
    *,
    forget: bool = False,
    also: Callable[[Session], None] = lambda _: None,
) -> "list[Detached]":
    """Remove the vectors from the attached indices and delete the collection; returns what was done in each index.

    With ``forget`` the vectors stay and no request is sent; ``also`` is that of ``collection.remove``. Raises
    StoreError: the server is away or refuses, or another process catches up with the index; repeat the call.
    """
    with collection_lock(collection.name, engine):
        detached = []
        attachment = Attachment.parse(collection.store)
        if not (attachment.companion or forget):
            from indexer.stores.attached.in_place import detach as detach_index  # noqa: PLC0415 - half a second

            for uuid, index in attach_ledger.remembered(engine, collection.name) or [("", attachment.index)]:
                detached.append(detach_index(attachment, settings.credentials, index=index, uuid=uuid))
        collections.remove(engine, collection, settings, forget=forget, also=also)
    return detached


def _refuse_shared_field(engine: sa.Engine, name: str, users: UsersIndex) -> None:
    """Refuse a field of another collection, whose vectors would pass for its own; of two at once, refuse the later."""
    attachment, own = users.attachment, collections.find(engine, name)
    for collection in collections.all_collections(engine):
        other = Attachment.parse(collection.store) if is_attached(collection.store) else None
        if other is None or attachment.companion or other.companion or collection.name == name:
            continue
        began_later = own is not None and (own.created, own.name) < (collection.created, collection.name)
        if began_later and not attach_ledger.remembered(engine, collection.name):
            continue
        is_same_field = (other.server, other.field) == (attachment.server, attachment.field)
        if is_same_field and any(fnmatchcase(index, part) for index in users.names for part in other.parts):
            raise BadInput(
                f"{attachment.index} has vectors of collection {collection.name} in {attachment.field!r} already; "
                "name another field with --field"
            )


def _attachment_of(name: str, collection: Collection | None, requested: Attachment | None) -> Attachment:
    if collection is None:
        if requested is None:
            raise BadInput(
                f"there is no collection {name}; say what to attach it to: "
                f"dragoman attach INDEX -c {name} --store https://HOST:9200 --text FIELD"
            )
        return requested
    if not is_attached(collection.store):
        raise BadInput(f"collection {name} is not attached to an index; take another name with -c")
    stored = Attachment.parse(collection.store)
    if requested and replace(requested, family=stored.family) != stored:
        raise BadInput(
            f"collection {name} is attached to {collection.store}; detach it first (dragoman detach -c {name}), "
            "or take another name with -c"
        )
    return stored
