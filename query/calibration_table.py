"""Calibrations in the SQL database: several a collection, one of them active."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from encoders.errors import BadInput, ModelMismatch
from indexer.collection import Collection
from indexer.database import Base, now, transaction
from query.calibration import Calibration


class CalibrationRow(Base):
    """One calibration of a collection."""

    __tablename__ = "calibrations"

    collection: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str]
    created: Mapped[dt.datetime]
    active: Mapped[bool]
    summary: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    artifact: Mapped[bytes] = mapped_column(deferred=True)


@dataclass(frozen=True)
class KeptCalibration:
    """What is known of a calibration short of its vectors.

    Attributes:
        id: hash of all that decides a ranking.
        model: id of the vectors it is for.
        created: when, in UTC.
        active: whether searches use it.
        summary: settings, documents by language, and the table it was decided by.
    """

    id: str
    model: str
    created: dt.datetime
    active: bool
    summary: Mapping[str, Any]


def keep(engine: sa.Engine, collection: str, calibration: Calibration, decided: Mapping[str, Any]) -> KeptCalibration:
    """Write a calibration down and make it the active one; the same again changes nothing else."""
    summary = {
        "balance": calibration.balance,
        "margin": calibration.margin,
        "rank": calibration.rank,
        "neighbours": calibration.neighbours,
        "languages": {
            lang: {"documents": one.documents, "pseudo_queries": len(one.sources)}
            for lang, one in calibration.languages.items()
        },
        **decided,
    }
    row = CalibrationRow(
        collection=collection,
        id=calibration.id,
        model=calibration.model,
        created=now(),
        active=True,
        summary=summary,
        artifact=calibration.to_bytes(),
    )
    with transaction(engine) as session:
        session.execute(sa.update(CalibrationRow).where(CalibrationRow.collection == collection).values(active=False))
        return _kept(session.merge(row))


def every(engine: sa.Engine, collection: str) -> list[KeptCalibration]:
    """A collection's calibrations, oldest first."""
    query = sa.select(CalibrationRow).where(CalibrationRow.collection == collection)
    with transaction(engine) as session:
        return [_kept(row) for row in session.scalars(query.order_by(CalibrationRow.created, CalibrationRow.id))]


def load(engine: sa.Engine, collection: Collection, wanted: str = "") -> Calibration | None:
    """The active calibration of a collection, or the one whose id begins like this; none where there is none.

    Raises:
        BadInput: no id, or more than one, begins like this.
        ModelMismatch: the calibration is of another model than the collection's vectors.
        StoreError: the artifact can't be read.
    """
    if wanted:
        kept = _named(engine, collection.name, wanted)
    else:
        found = [one for one in every(engine, collection.name) if one.active]
        if not found:
            return None
        (kept,) = found
    if kept.model != collection.model:
        raise ModelMismatch(
            f"calibration {kept.id} is of model {kept.model} and collection {collection.name} holds vectors of model "
            f"{collection.model}; make another: dragoman calibrate -c {collection.name}"
        )
    with transaction(engine) as session:
        query = sa.select(CalibrationRow.artifact).where(
            CalibrationRow.collection == collection.name, CalibrationRow.id == kept.id
        )
        return Calibration.from_bytes(session.execute(query).scalar_one())


def use(engine: sa.Engine, collection: str, wanted: str) -> KeptCalibration | None:
    """Make the calibration whose id begins like this the active one; ``none``: none of them.

    Raises:
        BadInput: no id, or more than one, begins like this.
    """
    chosen = None if wanted == NONE else _named(engine, collection, wanted)
    with transaction(engine) as session:
        for row in session.scalars(sa.select(CalibrationRow).where(CalibrationRow.collection == collection)):
            row.active = chosen is not None and row.id == chosen.id
    return chosen


def forget(engine: sa.Engine, collection: str) -> None:
    """Remove a collection's calibrations."""
    with transaction(engine) as session:
        session.execute(sa.delete(CalibrationRow).where(CalibrationRow.collection == collection))


NONE = "none"
"""What stands for ranking without a calibration."""


def _named(engine: sa.Engine, collection: str, wanted: str) -> KeptCalibration:
    kept = every(engine, collection)
    found = [one for one in kept if one.id.startswith(wanted)]
    if len(found) != 1:
        ids = ", ".join(one.id for one in kept) or "none yet"
        raise BadInput(
            f"{len(found) or 'no'} calibrations of {collection} begin with {wanted!r} (there are: {ids}); "
            f"see them: dragoman calibrate --list -c {collection}"
        )
    return found[0]


def _kept(row: CalibrationRow) -> KeptCalibration:
    return KeptCalibration(row.id, row.model, row.created, row.active, row.summary)
