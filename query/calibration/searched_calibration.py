"""Load the calibration that a collection is searched with, together with that of a second field being filled."""

from __future__ import annotations

import sqlalchemy as sa

from indexer.collection.collection import Collection
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.old_and_new_calibration import OldAndNewCalibration
from query.calibration.summary import SecondField
from query.calibration.table import StoredCalibration


def load_searched(engine: sa.Engine, collection: Collection, wanted: str = "") -> Calibration | None:
    """The calibration of ``table.load``, joined with that of the second field if one is being filled.

    Raises:
        DragomanError: as ``table.load``.
    """
    calibration = calibration_table.load(engine, collection, wanted)
    if not isinstance(calibration, MappedCalibration) or calibration.maps.query_encoder is None:
        return calibration
    stored = second_field(engine, collection, calibration.maps.query_encoder.model)
    if stored is None:
        return calibration
    return OldAndNewCalibration.of(calibration, calibration_table.read(engine, collection.name, stored.id))


def second_field_key(collection: Collection) -> SecondField:
    """Identifies a second field: the collection's generation and the model of its own vectors."""
    return SecondField(collection.generation, collection.model)


def second_field(engine: sa.Engine, collection: Collection, model: str = "") -> StoredCalibration | None:
    """The calibration of the collection's second field, of any model unless given; none if there is no such field."""
    return next(
        (
            stored
            for stored in reversed(calibration_table.all_calibrations(engine, collection.name))
            if stored.active
            and model in {"", stored.model}
            and stored.summary.second_field == second_field_key(collection)
        ),
        None,
    )
