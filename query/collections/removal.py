"""Remove a collection and everything that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from indexer.attaching.attach import detach
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index import collection_lock
from indexer.stores.attached.address import is_attached
from query.calibration import table as calibration_table
from query.evaluation import evaluation_log
from query.query_log import judged_queries

if TYPE_CHECKING:
    from indexer.stores.attached.in_place import Detached


def remove_collection(
    engine: sa.Engine, collection: Collection, settings: Settings, *, forget: bool = False
) -> list[Detached]:
    """Remove a collection with its runs, calibrations, logged evaluations and logged queries.

    An attached index keeps its documents and loses the vectors. After an interruption, another call does the rest. With
    ``forget`` the store is left as it is, because its server is gone for good.

    Returns:
        What was removed from each attached index.

    Raises:
        StoreError: the store can't be reached.
    """

    def remove_rows() -> None:
        evaluation_log.forget(engine, collection.name)
        calibration_table.forget(engine, collection.name)
        judged_queries.delete_searches(engine, collection.name)

    if is_attached(collection.store):
        return detach(engine, collection, settings, forget=forget, also=remove_rows)
    with collection_lock(collection.name, engine):
        collections.remove(engine, collection, settings, forget=forget, also=remove_rows)
    return []
