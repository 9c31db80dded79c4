"""The state of collections in the database, read in one statement before every search."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from indexer.collection.collection import Collection
from query.calibration.table import CalibrationRow

_OTHER_CALIBRATIONS = aliased(CalibrationRow)
_NEWEST = (
    sa.select(sa.func.max(_OTHER_CALIBRATIONS.created))
    .where(_OTHER_CALIBRATIONS.collection == Collection.name, _OTHER_CALIBRATIONS.active)
    .scalar_subquery()
)
_STATE = (
    sa.select(
        Collection.store,
        Collection.generation,
        Collection.model,
        Collection.encoder,
        Collection.method,
        CalibrationRow.id,
        _NEWEST,
    )
    .outerjoin(
        CalibrationRow,
        sa.and_(
            CalibrationRow.collection == Collection.name,
            CalibrationRow.model == Collection.model,
            CalibrationRow.active,
        ),
    )
    .where(Collection.name == sa.bindparam("name"))
)
_NAMES = sa.select(Collection.name).order_by(Collection.name)


def state_of(engine: sa.Engine, name: str) -> tuple[Any, ...] | None:
    """What decides how a collection is searched, the last two items of its calibration; none: no such collection."""
    with engine.connect() as connection:
        row = connection.execute(_STATE, {"name": name}).one_or_none()
    return None if row is None else tuple(row)


def names(engine: sa.Engine) -> list[str]:
    """Names of all collections."""
    with engine.connect() as connection:
        return list(connection.execute(_NAMES).scalars())
