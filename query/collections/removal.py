"""Remove a collection and everything that belongs to it, or some of its documents."""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.errors import BadInput
from indexer.attaching.attached_collection import detach
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.index_sources import collection_lock
from indexer.ledger.database import read_database_id, transaction
from indexer.stores.attached.attached_address import is_attached
from query.calibration import calibration_table
from query.evaluation import evaluation_log
from query.query_log import judged_queries

if TYPE_CHECKING:
    from indexer.stores.attached.in_place import Detached


def remove_collection(
    engine: sa.Engine, collection: Collection, settings: Settings, *, forget: bool = False
) -> "list[Detached]":
    """Remove a collection with its runs, calibrations, logged evaluations and logged queries.

    Returns what was removed from each attached index, which keeps its documents. After an interruption, another call
    does the rest. ``forget`` leaves the store, whose server is gone. Raises StoreError: the store can't be reached.
    """

    def remove_rows(session: Session) -> None:
        evaluation_log.forget(session, collection.name)
        calibration_table.forget(session, collection.name)
        judged_queries.delete_searches(session, collection.name)

    if is_attached(collection.store):
        return detach(engine, collection, settings, forget=forget, also=remove_rows)
    with collection_lock(collection.name, engine):
        collections.remove(engine, collection, settings, forget=forget, also=remove_rows)
    return []


def remove_documents(engine: sa.Engine, collection: Collection, doc_ids: Sequence[str], settings: Settings) -> int:
    """Remove documents by their ids; returns their number. Raises BadInput: the collection has none of them."""
    with closing(collection.open_store(settings, database_id=read_database_id(engine))) as store:
        deleted = store.delete(doc_ids)
    with transaction(engine) as session:
        collections.hold(session, collection)
    if not deleted:
        raise BadInput(f"collection {collection.name} has none of these documents; search shows ids in brackets")
    return deleted
