"""Generations of a collection: it is built anew beside the one that is searched, takes its place, and can go back.

The collection's row says which generation is searched. Readers of the store other than Dragoman (Elasticsearch has
them) see the same one: ``VectorStore.publish`` is called before the row changes, and again by whatever goes on after a
crash in between, when both point at a whole generation each.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.document import EncoderSpec
from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.database import owner_of, transaction
from indexer.settings import Settings
from indexer.stores.factory import drop_store, open_store


@dataclass(frozen=True)
class Generation:
    """One of a collection's stores, and what its vectors are of.

    Attributes:
        number: counted from 1.
        encoder: name or folder of the encoder.
        method: how a document's vector is made.
        model: id of the encoder's vectors.
        dim: their width.
    """

    number: int
    encoder: str
    method: str
    model: str
    dim: int

    @classmethod
    def searched(cls, collection: Collection) -> Self:
        """The one that is searched."""
        return cls(collection.generation, collection.encoder, collection.method, collection.model, collection.dim)

    def take_place(self, collection: Collection) -> None:
        """Be the one that is searched; the one before is the previous one."""
        collection.previous = asdict(Generation.searched(collection))
        collection.generation, collection.encoder, collection.method = self.number, self.encoder, self.method
        collection.model, collection.dim = self.model, self.dim


def begin(engine: sa.Engine, name: str, settings: Settings, encoder: str, spec: EncoderSpec) -> Generation:
    """The generation to build: the one that an interrupted rebuild with the same model left, or a new one.

    What an interrupted rebuild with another model left is removed.
    """
    found = collections.require(engine, name)
    begun = Generation(**found.building) if found.building else None
    if begun and begun.model == spec.model:
        return begun
    if begun:
        place, owner = found.place(settings), owner_of(engine)
        drop_store(place, name, begun.number, credentials=settings.credentials, owner=owner)
    number = 1 + max(one["number"] for one in (found.building, found.previous, {"number": found.generation}) if one)
    made = Generation(number, encoder, spec.method, spec.model, spec.dim)
    with transaction(engine) as session:
        session.get_one(Collection, name).building = asdict(made)
    return made


def switch(engine: sa.Engine, name: str, settings: Settings) -> None:
    """Let the generation that was built be searched; the one searched till now stays, the one before that goes."""
    with transaction(engine) as session:
        row = session.get_one(Collection, name)
        if row.building is None:
            return
        gone, before = row.previous, row.generation
        Generation(**row.building).take_place(row)
        row.building = None
        place = row.place(settings)
    if gone and gone["number"] != before:
        drop_store(place, name, gone["number"], credentials=settings.credentials, owner=owner_of(engine))


def change_field(session: Session, name: str, encoder: str, spec: EncoderSpec) -> int:
    """Let another model's vectors in the same store be searched; ``roll_back`` returns to those searched till now.

    Returns:
        number of a generation that nothing returns to any more, whose store is the caller's to remove; 0 if none.
    """
    row = session.get_one(Collection, name)
    gone = int(row.previous["number"]) if row.previous else row.generation
    Generation(row.generation, encoder, spec.method, spec.model, spec.dim).take_place(row)
    return gone if gone != row.generation else 0


def roll_back(engine: sa.Engine, name: str, settings: Settings) -> Generation:
    """Search the previous generation again; the one searched till now becomes the previous one.

    Raises:
        BadInput: there is no previous one.
        StoreError: its store is gone or can't be opened.
    """
    found = collections.require(engine, name)
    if not found.previous:
        raise BadInput(
            f"collection {name} has no earlier generation; only one built by dragoman index --rebuild has. "
            f"Another calibration, with maps or without, is chosen by dragoman calibrate -c {name} --use ID (--list)"
        )
    earlier = Generation(**found.previous)
    place, owner = found.place(settings), owner_of(engine)
    store = open_store(place, name, earlier.number, make=False, credentials=settings.credentials, owner=owner)
    try:
        store.publish()
    finally:
        store.close()
    with transaction(engine) as session:
        earlier.take_place(session.get_one(Collection, name))
    return earlier
