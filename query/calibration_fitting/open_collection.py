"""A collection open for calibration: store, encoder, database."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa

from encoders.console import QUIET, Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.machine.freed_memory import give_back_memory
from encoders.machine.placement import Device
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.encoder import open_encoder_of
from indexer.collection.settings import Settings
from indexer.ledger import database
from indexer.stores.contract import VectorStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration, UnreadableCalibration
from query.calibration.calibration_table import StoredCalibration


@dataclass
class OpenCollection:
    """A collection with its store, while its calibration is examined or made, or it migrates."""

    engine: sa.Engine
    collection: Collection
    store: VectorStore
    device: Device
    console: Console
    row: Collection | None = None  # the collection as it was read, if ``collection`` is what it will be

    @classmethod
    @contextmanager
    def open(
        cls, name: str, settings: Settings, device: Device = "auto", console: Console = QUIET
    ) -> "Iterator[OpenCollection]":
        """Open a collection, its encoders on ``device``. Raises BadInput: there is no such collection."""
        with database.open_database(settings.database) as engine:
            collection = collections.require(engine, name)
            collection.check_store(settings)
            with closing(collection.open_store(settings)) as store:
                yield cls(engine, collection, store, device, console)

    def stored_calibration(self) -> StoredCalibration | None:
        """The active calibration without its vectors; none if there is none."""
        return calibration_table.active(self.engine, self.collection)

    def calibration(self) -> Calibration | None:
        """The active calibration; none if there is none, or if it is damaged or of another version."""
        try:
            return calibration_table.load(self.engine, self.collection)
        except UnreadableCalibration:  # the message asks for a new calibration, which callers make
            return None

    @cached_property
    def encoder(self) -> Encoder:
        """The documents' encoder, loaded once; raises ``BadInput`` if no document has a vector."""
        if not self.store.count(self.collection.model):
            raise BadInput(self.collection.emptiness)
        give_back_memory()  # this process may have indexed, with an encoder of its own
        return open_encoder_of(self.collection, self.console, device=self.device)
