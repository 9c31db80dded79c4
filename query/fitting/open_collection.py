"""A collection open for calibration: store, encoder, database."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Encoder
from encoders.errors import BadInput
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from encoders.session import Device
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger import database
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from onnx_export.models import open_named
from query.ranking.query_encoder import open_specified


@dataclass
class OpenCollection:
    """A collection with its store and its encoder, while it is calibrated or migrates.

    Attributes:
        encoder: the documents' encoder.
    """

    engine: sa.Engine
    collection: Collection
    store: VectorStore
    encoder: Encoder

    @classmethod
    def open(cls, name: str, settings: Settings, device: Device, console: Console) -> OpenCollection:
        """Open a collection by its name.

        Raises:
            BadInput: there is no such collection, or it is empty.
        """
        with ExitStack() as stack:
            engine = stack.enter_context(database.opened(settings.database))
            collection = collections.require(engine, name)
            settings.check_store(name, collection.store or settings.home_store)
            store = stack.enter_context(closing(collection.open_store(settings)))
            if not store.count():
                raise BadInput(f"collection {name} holds no documents; put some in: dragoman index SOURCE -c {name}")
            encoder = open_named(collection.encoder, collection.method, console, device=device)
            collection.check(encoder.spec)
            stack.pop_all()
        return cls(engine, collection, store, encoder)

    def query_encoder(self, maps: SpaceMaps | Networks | None, device: Device, console: Console) -> Encoder:
        """The encoder of queries: the maps' encoder if they name one, else the documents' encoder."""
        if maps is None or maps.asker is None:
            return self.encoder
        return open_specified(self.collection, maps.asker, device, console)

    def close(self) -> None:
        """Close the store and the database."""
        self.store.close()
        self.engine.dispose()
