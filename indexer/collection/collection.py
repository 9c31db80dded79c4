"""A collection: its name, its store, and the encoder its vectors are of."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from encoders.document import EncoderSpec
from encoders.errors import BadInput, ModelMismatch
from indexer.ledger import ledger
from indexer.ledger.attach_ledger import AttachedIndex
from indexer.ledger.database import Base, now, owner_of, transaction
from indexer.settings import Settings
from indexer.stores.attached.address import Attachment, is_attached
from indexer.stores.contract import VectorStore
from indexer.stores.factory import drop_store, open_store, stored_generations


class Collection(Base):
    """A row of the collections table.

    Attributes:
        name: what commands call it.
        store: URL of the store that holds it; empty: the home's, wherever the home is moved.
        encoder: name or folder of the encoder.
        method: how a document's vector is made.
        model: id of the encoder's vectors.
        dim: their width.
        created: when, in UTC.
        generation: which of its stores is searched: a collection is built anew beside it.
        building: the generation that is being built, until it takes the place of the one that is searched.
        previous: the generation that was searched before, and to which ``rollback`` returns.
    """

    __tablename__ = "collections"

    name: Mapped[str] = mapped_column(primary_key=True)
    store: Mapped[str]
    encoder: Mapped[str]
    method: Mapped[str]
    model: Mapped[str]
    dim: Mapped[int]
    created: Mapped[dt.datetime]
    generation: Mapped[int] = mapped_column(default=1)
    building: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    previous: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))

    def open_store(self, settings: Settings, *, owner: str = "") -> VectorStore:
        """Open the store that holds it.

        Args:
            settings: where things are, and who asks.
            owner: id of the database that has it, given by who writes.

        Raises:
            BadInput: what is there is somebody else's.
            StoreError: it is gone or can't be opened.
        """
        return open_store(
            self.place(settings), self.name, self.generation, make=False, credentials=settings.credentials, owner=owner
        )

    def place(self, settings: Settings) -> str:
        """URL of where its stores are."""
        return self.store or settings.home_store

    def refuse_attached(self, because: str) -> None:
        """See that documents are put in by us, and not by the owner of an index that it is attached to.

        Args:
            because: what can't be done where it is attached, and what to do: the sentence's end.

        Raises:
            BadInput: it is attached.
        """
        if is_attached(self.store):
            raise BadInput(f"collection {self.name} is attached to an index, and {because}")

    def check(self, spec: EncoderSpec) -> None:
        """See that an encoder makes this collection's vectors.

        Raises:
            ModelMismatch: it doesn't.
        """
        if spec.model != self.model:
            raise ModelMismatch(
                f"collection {self.name} holds vectors of {self.encoder} by {self.method} (model {self.model}), "
                f"and {spec.name} by {spec.method} is model {spec.model}; "
                "use the first (if it was trained again, with the settings it had then), index into another collection "
                "with -c, or encode all documents again: dragoman index --rebuild"
            )


def find(engine: sa.Engine, name: str) -> Collection | None:
    """A collection by its name."""
    with transaction(engine) as session:
        return session.get(Collection, name)


def require(engine: sa.Engine, name: str) -> Collection:
    """A collection by its name.

    Raises:
        BadInput: there is none.
    """
    found = find(engine, name)
    if found is None:
        others = ", ".join(collection.name for collection in every(engine)) or "none yet"
        raise BadInput(
            f"there is no collection {name!r} (there are: {others}); make it: dragoman index SOURCE -c {name}"
        )
    return found


def every(engine: sa.Engine) -> list[Collection]:
    """All collections, by name."""
    with transaction(engine) as session:
        return list(session.scalars(sa.select(Collection).order_by(Collection.name)))


def register(engine: sa.Engine, name: str, settings: Settings, encoder: str, spec: EncoderSpec) -> Collection:
    """Write a new collection down, in the store of the settings."""
    store = "" if settings.store == settings.home_store else settings.store
    collection = Collection(
        name=name, store=store, encoder=encoder, method=spec.method, model=spec.model, dim=spec.dim, created=now()
    )
    with transaction(engine) as session:
        session.add(collection)
    return collection


def remove(engine: sa.Engine, collection: Collection, settings: Settings, *, forget: bool = False) -> None:
    """Remove a collection: its runs, so that workers drop what they have, its vectors and documents, its row.

    A process that was killed after it switched to a generation has left one that the row does not name. What was put
    into somebody else's index is none of its stores: ``attaching.detach`` takes it back first. With ``forget`` its
    stores stay where they are, for their server is gone.
    """
    ledger.forget_collection(engine, collection.name)
    in_place = is_attached(collection.store) and not Attachment.parse(collection.store).companion
    if not (forget or in_place):
        _drop_stores(engine, collection, settings)
    with transaction(engine) as session:
        session.execute(sa.delete(AttachedIndex).where(AttachedIndex.collection == collection.name))
        session.execute(sa.delete(Collection).where(Collection.name == collection.name))


def _drop_stores(engine: sa.Engine, collection: Collection, settings: Settings) -> None:
    place, credentials, owner = collection.place(settings), settings.credentials, owner_of(engine)
    named = [one["number"] for one in (collection.building, collection.previous) if one]
    left = stored_generations(place, collection.name, credentials=credentials, owner=owner)
    for generation in sorted({*left, *named, collection.generation}):
        drop_store(place, collection.name, generation, credentials=credentials, owner=owner)
