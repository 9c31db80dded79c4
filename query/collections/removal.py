"""A collection goes, with everything that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from indexer.attaching.attach import detach
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.index import collection_lock
from indexer.settings import Settings
from indexer.stores.attached.address import is_attached
from query.calibration import table as calibration_table
from query.evaluation import history
from query.query_log import judged_queries

if TYPE_CHECKING:
    from indexer.stores.attached.same_index import Detached


def remove_collection(
    engine: sa.Engine, collection: Collection, settings: Settings, *, forget: bool = False
) -> list[Detached]:
    """Remove a collection with its runs, calibrations, logged evaluations and logged queries.

    An attached index keeps its documents and loses what was attached. Interrupted, another call does the rest.

    Args:
        engine: of the database.
        collection: which one.
        settings: where its store is.
        forget: leave its store as it is: the server is gone for good.

    Returns:
        What was taken from each attached index.

    Raises:
        StoreError: its store can't be reached.
    """
    detached: list[Detached] = []
    if is_attached(collection.store):
        detached = detach(engine, collection, settings, forget=forget)
    else:
        with collection_lock(settings, collection.name):
            collections.remove(engine, collection, settings, forget=forget)
    history.forget(engine, collection.name)
    calibration_table.forget(engine, collection.name)
    judged_queries.forget(engine, collection.name)
    return detached
