"""What a collection is searched with: its active calibration, with the second field's if one is being filled."""

from __future__ import annotations

import sqlalchemy as sa

from indexer.collection.collection import Collection
from query.calibration import table as calibration_table
from query.calibration.calibration import Calibration
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.summary import SecondField
from query.calibration.table import KeptCalibration
from query.calibration.two_fields import TwoFields


def load(engine: sa.Engine, collection: Collection, wanted: str = "") -> Calibration | None:
    """What a collection is searched with: a calibration, with the second field's where there is one being filled.

    Raises:
        BadInput: no id, or more than one, begins like this.
        ModelMismatch: the calibration is of another model than the collection's vectors.
        StoreError: the artifact can't be read.
    """
    found = calibration_table.load(engine, collection, wanted)
    if not isinstance(found, MappedCalibration) or found.maps.asker is None:
        return found
    kept = second_field(engine, collection, found.maps.asker.model)
    return TwoFields.beside(found, calibration_table.read(engine, collection.name, kept.id)) if kept else found


def place(collection: Collection) -> SecondField:
    """What tells one second field of a collection from another."""
    return SecondField(collection.generation, collection.model)


def second_field(engine: sa.Engine, collection: Collection, model: str = "") -> KeptCalibration | None:
    """The calibration of a second field, of any model unless one is named; none where there is no such field."""
    return next(
        (
            one
            for one in reversed(calibration_table.every(engine, collection.name))
            if one.active and model in {"", one.model} and one.summary.second_field == place(collection)
        ),
        None,
    )
