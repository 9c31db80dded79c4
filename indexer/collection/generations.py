"""Generations of a collection: a new generation is built beside the searched one, replaces it, and can be rolled back.

The collection's row says which generation is searched, and ``VectorStore.publish`` tells other readers of the store,
before the row changes. After a crash in between both point at complete generations; the next command publishes again.
"""

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Self

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.document import EncoderSpec
from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger.database import read_database_id, transaction
from indexer.ledger.index_runs import refuse_while_workers


@dataclass(frozen=True)
class Generation:
    """One of a collection's stores, and the encoder of its vectors; the first has the number 1."""

    number: int
    encoder: str
    method: str
    model: str
    dim: int

    @classmethod
    def searched(cls, collection: Collection) -> Self:
        """The generation that is searched."""
        return cls(collection.generation, collection.encoder, collection.method, collection.model, collection.dim)

    def take_place(self, collection: Collection) -> None:
        """Make this generation the searched generation; the one searched so far becomes the previous generation."""
        collection.previous = asdict(Generation.searched(collection))
        collection.generation, collection.encoder, collection.method = self.number, self.encoder, self.method
        collection.model, collection.dim = self.model, self.dim


def begin(engine: sa.Engine, name: str, settings: Settings, encoder: str, spec: EncoderSpec | Collection) -> Generation:
    """The generation to build: an interrupted rebuild's by the same model, or a new one in another model's place.

    New indices are of the kind that the settings state, if they state a store.
    """
    row = collections.require(engine, name)
    generation = Generation(**row.building) if row.building else None
    if generation is None or generation.model != spec.model:
        generation = Generation(1 + max(row.generations), encoder, spec.method, spec.model, spec.dim)
    with transaction(engine) as session:
        row = session.get_one(Collection, name)
        row.building = asdict(generation)
        if settings.states_other_store(row.place(settings)):
            row.store = settings.store
    drop_unnamed(engine, name, settings)
    return generation


def switch(engine: sa.Engine, name: str, settings: Settings) -> None:
    """Search the built generation; the searched one becomes previous, and the former previous store is removed."""
    with transaction(engine) as session:
        row = session.get_one(Collection, name)
        if row.building is not None:
            Generation(**row.building).take_place(row)
            row.building = None
    drop_unnamed(engine, name, settings)


def drop_unnamed(engine: sa.Engine, name: str, settings: Settings) -> None:
    """Remove the stores of generations that the row does not name, also a killed process's; change the row first."""
    location = collections.require(engine, name).location(settings, read_database_id(engine))
    stored = location.generations()  # first: a store is made after the row names it
    for number in sorted(set(stored) - collections.require(engine, name).generations):
        location.drop(number)


def switch_model(session: Session, name: str, encoder: str, spec: EncoderSpec) -> int:
    """Search another model's vectors in the same store; ``roll_back`` returns to the vectors searched so far.

    Returns the generation that can't be rolled back to any more, whose store the caller removes; 0: none.
    """
    row = session.get_one(Collection, name)
    obsolete = int(row.previous["number"]) if row.previous else row.generation
    Generation(row.generation, encoder, spec.method, spec.model, spec.dim).take_place(row)
    return obsolete if obsolete != row.generation else 0


def roll_back(engine: sa.Engine, name: str, settings: Settings) -> Generation:
    """Search the previous generation; the caller has the collection's lock.

    Raises BadInput: there is none, or workers fill the searched one; StoreError: its store can't be opened.
    """
    row = collections.require(engine, name)
    refuse_while_workers(engine, name)
    if not row.previous:
        raise BadInput(
            f"collection {name} has no earlier generation to return to; dragoman index --rebuild and dragoman migrate "
            f"--re-encode make one. To search with another calibration: dragoman calibrate -c {name} --use ID "
            f"(dragoman status -c {name} --calibration shows them)"
        )
    previous = Generation(**row.previous)
    with closing(row.open_store(settings, generation=previous.number, database_id=read_database_id(engine))) as store:
        store.publish()
    with transaction(engine) as session:
        collections.hold(session, row)
        previous.take_place(session.get_one(Collection, name))
    return previous
