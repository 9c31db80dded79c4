"""A migration is the active calibration: leaving it is choosing the one before."""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa

from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.collection.collection import Collection
from indexer.ledger.ledger import encoding_again
from indexer.workers.controlling import cancel
from query.calibration import table as calibration_table
from query.calibration.table import KeptCalibration


def before(kept: KeptCalibration | None, model: str) -> str:
    """Id of the calibration to return to after migrating to a model; ``none``: to none.

    Migrating once more to the model that queries are of already returns to where the first time did.
    """
    if kept is None:
        return calibration_table.NONE
    return kept.summary.maps.before if kept.summary.maps and leads_to(kept, model) else kept.id


def leads_to(kept: KeptCalibration | None, model: str) -> bool:
    """Whether a calibration is that of a migration to a model."""
    return kept is not None and kept.summary.maps is not None and kept.summary.maps.to == model


def origin(engine: sa.Engine, collection: Collection) -> str:
    """Id of the calibration that a collection had before it migrated, however often; ``none`` where it had none."""
    every = {one.id: one for one in calibration_table.every(engine, collection.name)}
    kept = calibration_table.active(engine, collection)
    while kept and kept.summary.maps and (previous := kept.summary.maps.before):
        kept = every.get(previous)
    return kept.id if kept else calibration_table.NONE


def leave_migration(engine: sa.Engine, name: str) -> str:
    """Choose the calibration that a collection had before it migrated.

    Returns:
        its id, ``none`` where it had none; nothing where the collection has not migrated.

    Raises:
        BadInput: there is no such collection.
    """
    kept = calibration_table.active(engine, collections.require(engine, name))
    before = kept.summary.maps.before if kept and kept.summary.maps else ""
    if before:
        calibration_table.use(engine, name, before)
        cancel_abandoned_migration(engine, name)
    return before


def cancel_abandoned_migration(engine: sa.Engine, name: str) -> None:
    """End what workers encode again, if the collection is not asked by their encoder any more."""
    run = encoding_again(engine, name)
    if run and not leads_to(calibration_table.active(engine, collections.require(engine, name)), run.model):
        with suppress(BadInput):  # it came to its end a moment ago
            cancel(engine, name)
