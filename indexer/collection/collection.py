"""A collection: its name, its store, and the encoder of its vectors."""

import datetime as dt
import shutil
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from encoders.document import EncoderSpec
from encoders.errors import BadInput
from indexer.collection.collection_record import CollectionRecord
from indexer.collection.settings import Settings
from indexer.ledger import index_runs
from indexer.ledger.database import Base, now, read_database_id, transaction
from indexer.ledger.tables import AttachedIndex
from indexer.stores.attached.attached_address import Attachment, is_attached
from indexer.stores.collection_names import NoCollection, check_collection_name


class Collection(Base, CollectionRecord):
    """A row of the collections table."""

    __tablename__ = "collections"

    name: Mapped[str] = mapped_column(primary_key=True)
    store: Mapped[str]  # URL of the store; empty: the home's store, even if the home is moved
    encoder: Mapped[str]  # name or folder of the encoder
    method: Mapped[str]
    model: Mapped[str]  # id of the encoder's vectors
    dim: Mapped[int]
    created: Mapped[dt.datetime]  # time of creation, in UTC
    generation: Mapped[int] = mapped_column(default=1)  # number of the searched generation
    building: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))  # built, until it is searched
    previous: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))  # for ``rollback``
    checked_run: Mapped[int] = mapped_column(default=0)  # the last run after which the calibration was looked at


def find(engine: sa.Engine, name: str) -> Collection | None:
    """A collection by its name; None if there is none. Raises BadInput: no collection can have this name."""
    check_collection_name(name)
    with transaction(engine) as session:
        return session.get(Collection, name)


def require(engine: sa.Engine, name: str) -> Collection:
    """A collection by its name. Raises NoCollection: there is none; BadInput: no collection can have this name."""
    collection = find(engine, name)
    if collection is None:
        raise NoCollection.among([other.name for other in all_collections(engine)], name)
    return collection


def all_collections(engine: sa.Engine) -> list[Collection]:
    """All collections, by name."""
    with transaction(engine) as session:
        return list(session.scalars(sa.select(Collection).order_by(Collection.name)))


def encoder_of_work(engine: sa.Engine, name: str) -> tuple[str, str]:
    """Encoder and method of a collection's work: of re-encoding, else of the built, else of the searched generation."""
    collection = require(engine, name)
    run = index_runs.active_reencoding(engine, name)
    named = (run.again if run else None) or collection.building
    if named:
        return named["encoder"], named["method"]
    return collection.encoder, collection.method


def register(engine: sa.Engine, name: str, settings: Settings, encoder: str, spec: EncoderSpec) -> Collection:
    """Add a new collection's row, with the store of the settings."""
    store = "" if settings.store == settings.home_store else settings.store
    collection = Collection(
        name=name, store=store, encoder=encoder, method=spec.method, model=spec.model, dim=spec.dim, created=now()
    )
    with transaction(engine) as session:
        session.add(collection)
    return collection


def hold(session: Session, collection: Collection, *, as_searched: bool = True) -> None:
    """Hold a collection's row until the transaction ends; call this before the transaction writes about the collection.

    Raises BadInput: since the row was read, the collection was deleted, or with ``as_searched`` is searched by another
    generation or model.
    """
    read = [Collection.name, Collection.created, *([Collection.generation, Collection.model] if as_searched else [])]
    same = [column == getattr(collection, column.key) for column in read]
    update = sa.update(Collection).where(*same).values(dim=Collection.dim)
    if not session.execute(update, execution_options={"synchronize_session": False}).rowcount:  # type: ignore[attr-defined]
        raise BadInput(
            f"collection {collection.name} was deleted{', rebuilt, migrated or rolled back' if as_searched else ''} "
            "while this command worked on it; see dragoman status, then give the command again"
        )


def remove(
    engine: sa.Engine,
    collection: Collection,
    settings: Settings,
    *,
    forget: bool = False,
    also: Callable[[Session], None] = lambda _: None,
) -> None:
    """Remove a collection: its runs, so that workers drop their chunks; its stores; its row, and what ``also`` removes.

    The row goes last, so that after an interruption another call removes the rest. Stores that no row names, of a
    process killed after a switch, are removed too. With ``forget`` the stores stay. ``attaching.detach`` removes the
    vectors in a user's index.
    """
    index_runs.forget_collection(engine, collection.name)
    in_place = is_attached(collection.store) and not Attachment.parse(collection.store).companion
    if not (forget or in_place):
        location = collection.location(settings, read_database_id(engine))
        for number in sorted(collection.generations.union(location.generations())):
            location.drop(number)
    shutil.rmtree(settings.checkpoints(collection.name), ignore_errors=True)
    with transaction(engine) as session:
        session.execute(sa.delete(Collection).where(Collection.name == collection.name))  # who writes about it waits
        session.execute(sa.delete(AttachedIndex).where(AttachedIndex.collection == collection.name))
        also(session)
