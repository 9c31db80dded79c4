"""A migration is an active calibration with maps; to leave the migration is to choose the previous calibration."""

from contextlib import suppress

import sqlalchemy as sa

from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.index_runs import active_reencoding
from indexer.workers.run_control import cancel
from query.calibration import calibration_table
from query.calibration.calibration import NONE


def migrated_to(engine: sa.Engine, name: str) -> str:
    """Id of the model that encodes a collection's queries since its migration; empty without a migration."""
    stored = calibration_table.active(engine, collections.require(engine, name))
    return stored.summary.migrated_to if stored else ""


def origin(engine: sa.Engine, collection: Collection) -> str:
    """Id of the calibration that a collection had before its first migration; ``none`` if it had none."""
    calibrations = {stored.id: stored for stored in calibration_table.all_calibrations(engine, collection.name)}
    stored = calibration_table.active(engine, collection)
    while stored and stored.summary.migrated_from:
        stored = calibrations.get(stored.summary.migrated_from)
    return stored.id if stored else NONE


def leave_migration(engine: sa.Engine, name: str) -> str:
    """Choose the calibration before the migration; its id, ``none`` without a calibration, empty without a migration.

    Raises BadInput: there is no such collection.
    """
    collection = collections.require(engine, name)
    stored = calibration_table.active(engine, collection)
    previous = stored.summary.migrated_from if stored else ""
    if previous:
        calibration_table.use(engine, collection, previous)
        cancel_abandoned_migration(engine, name)
    return previous


def cancel_abandoned_migration(engine: sa.Engine, name: str) -> None:
    """Cancel the workers' re-encoding run if its encoder no longer encodes the collection's queries."""
    run = active_reencoding(engine, name)
    if run and run.model != migrated_to(engine, name):
        with suppress(BadInput):  # the run ended meanwhile
            cancel(engine, name)
