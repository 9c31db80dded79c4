"""A collection open for calibration: store, encoder, database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa

from encoders.console import Console
from encoders.devices import Device
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from encoders.memory import give_back_memory
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.encoder import open_encoder_of
from indexer.collection.settings import Settings
from indexer.ledger import database
from indexer.stores.contract import VectorStore
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration, UnreadableCalibration
from query.ranking.query_encoder import open_specified


@dataclass
class OpenCollection:
    """A collection with its store, while its calibration is examined or made, or it migrates."""

    engine: sa.Engine
    collection: Collection
    store: VectorStore
    device: Device
    console: Console

    @classmethod
    @contextmanager
    def open(
        cls, name: str, settings: Settings, device: Device = "auto", console: Console | None = None
    ) -> Iterator[OpenCollection]:
        """Open a collection by its name; the device is that of its encoders.

        Raises:
            BadInput: there is no such collection.
        """
        with database.open_database(settings.database) as engine:
            collection = collections.require(engine, name)
            collection.check_store(settings)
            with closing(collection.open_store(settings)) as store:
                yield cls(engine, collection, store, device, console or Console(quiet=True))

    def calibration(self) -> Calibration | None:
        """The active calibration; none if there is none, or if it is damaged or of another version."""
        try:
            return calibration_table.load(self.engine, self.collection)
        except UnreadableCalibration:  # the message asks for a new calibration, which callers make
            return None

    @cached_property
    def encoder(self) -> Encoder:
        """The documents' encoder, loaded once; raises ``BadInput`` if the collection is empty."""
        if not self.store.count():
            raise self.empty()
        give_back_memory()  # this process may have indexed, with an encoder of its own
        return open_encoder_of(self.collection, self.console, device=self.device)

    def empty(self) -> BadInput:
        """The error for a collection without documents."""
        name = self.collection.name
        return BadInput(f"collection {name} holds no documents; put some in: dragoman index SOURCE -c {name}")

    def open_query_encoder(self, maps: SpaceMaps | Networks | None) -> Encoder:
        """The encoder of queries: the maps' encoder if they name one, else the documents' encoder."""
        if maps is None or maps.query_encoder is None:
            return self.encoder
        return open_specified(self.collection, maps.query_encoder, self.device, self.console)
