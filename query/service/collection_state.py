"""What the database says of collections, in one statement: asked before every search."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from indexer.collection.collection import Collection
from query.calibration.table import CalibrationRow

_BESIDE = aliased(CalibrationRow)
_NEWEST = (
    sa.select(sa.func.max(_BESIDE.created))
    .where(_BESIDE.collection == Collection.name, _BESIDE.active)
    .scalar_subquery()
)
_NOW = (
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


def now(engine: sa.Engine, name: str) -> tuple[Any, ...] | None:
    """What decides how a collection is searched, the last two of it its calibration; none: there is no such one."""
    with engine.connect() as connection:
        found = connection.execute(_NOW, {"name": name}).one_or_none()
    return None if found is None else tuple(found)


def names(engine: sa.Engine) -> list[str]:
    """All collections."""
    with engine.connect() as connection:
        return list(connection.execute(_NAMES).scalars())
