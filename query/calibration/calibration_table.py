"""Calibrations in the SQL database: several of a collection, at most one of them active for each model."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from encoders.errors import BadInput, ModelMismatch
from indexer.collection.collection import Collection, hold
from indexer.collection.collection_record import CollectionRecord
from indexer.ledger.database import Base, now, transaction
from query.calibration.calibration import NONE, Calibration
from query.calibration.calibration_summary import Summary


class CalibrationRow(Base):
    """One calibration of a collection; ``summary`` is a ``Summary``."""

    __tablename__ = "calibrations"

    collection: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str]
    created: Mapped[dt.datetime]
    active: Mapped[bool]
    summary: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    artifact: Mapped[bytes] = mapped_column(deferred=True)

    # PostgreSQL's condition is in the migration alone: stated here it would make each search import its dialect
    __table_args__ = (
        sa.Index("active_calibration", "collection", "model", unique=True, sqlite_where=sa.text("active")),
    )


@dataclass(frozen=True)
class StoredCalibration:
    """A stored calibration without its vectors."""

    id: str  # hash of all that decides a ranking
    model: str
    created: dt.datetime  # time of creation, in UTC
    active: bool  # whether searches use the calibration while the collection holds vectors of the model
    summary: Summary


def keep(engine: sa.Engine, collection: Collection, calibration: Calibration, summary: Summary) -> StoredCalibration:
    """Store a calibration as the active one; a stored one with the same id gets the new time and summary.

    Raises BadInput: the collection is no longer as it was read.
    """
    row = CalibrationRow(
        collection=collection.name,
        id=calibration.id,
        model=calibration.model,
        created=now(),
        active=True,
        summary=summary.as_json(),
        artifact=calibration.to_bytes(),
    )
    with transaction(engine) as session:
        hold(session, collection)
        activate(session, collection.name, calibration.model, NONE)
        return _stored(session.merge(row))


def all_calibrations(engine: sa.Engine, name: str) -> list[StoredCalibration]:
    """A collection's calibrations, oldest first."""
    query = sa.select(CalibrationRow).where(CalibrationRow.collection == name)
    with transaction(engine) as session:
        return [_stored(row) for row in session.scalars(query.order_by(CalibrationRow.created, CalibrationRow.id))]


def active(engine: sa.Engine, collection: CollectionRecord) -> StoredCalibration | None:
    """The active calibration for a collection's present model; none if there is none."""
    calibrations = all_calibrations(engine, collection.name)
    return next((stored for stored in calibrations if stored.active and stored.model == collection.model), None)


def load(engine: sa.Engine, collection: CollectionRecord, wanted: str = "") -> Calibration | None:
    """The calibration whose id begins with ``wanted``; unless given, the active calibration or none.

    Raises BadInput: no id, or several, begin so; ModelMismatch: the model is another; UnreadableCalibration.
    """
    stored = _named(engine, collection, wanted) if wanted else active(engine, collection)
    return read(engine, collection.name, stored.id) if stored else None


def read(engine: sa.Engine, name: str, calibration_id: str) -> Calibration:
    """The calibration with an id; raises ``UnreadableCalibration`` if the artifact can't be read."""
    with transaction(engine) as session:
        query = sa.select(CalibrationRow.artifact).where(
            CalibrationRow.collection == name, CalibrationRow.id == calibration_id
        )
        return Calibration.from_bytes(session.execute(query).scalar_one(), calibration_id)


def use(engine: sa.Engine, collection: Collection, wanted: str) -> str:
    """Make the calibration whose id begins with ``wanted`` active, or ``none``; return its id.

    Raises as ``load``, and BadInput: the collection is no longer as it was read.
    """
    chosen = NONE
    if wanted != NONE:
        chosen = _named(engine, collection, wanted).id
        read(engine, collection.name, chosen)
    with transaction(engine) as session:
        hold(session, collection)
        activate(session, collection.name, collection.model, chosen)
    return chosen


def activate(session: Session, name: str, model: str, calibration_id: str) -> None:
    """Make the calibration with an id the active one of a collection for a model; ``none``: none is active."""
    of_model = sa.update(CalibrationRow).where(CalibrationRow.collection == name, CalibrationRow.model == model)
    session.execute(of_model.values(active=False))
    session.execute(of_model.where(CalibrationRow.id == calibration_id).values(active=True))


def forget(session: Session, name: str) -> None:
    """Delete a collection's calibrations."""
    session.execute(sa.delete(CalibrationRow).where(CalibrationRow.collection == name))


def _named(engine: sa.Engine, collection: CollectionRecord, wanted: str) -> StoredCalibration:
    """The only calibration whose id begins with ``wanted``, if it is of the collection's model."""
    name, calibrations = collection.name, all_calibrations(engine, collection.name)
    matches = [stored for stored in calibrations if stored.id.startswith(wanted)]
    if len(matches) != 1:
        ids = ", ".join(stored.id for stored in calibrations) or "none yet"
        raise BadInput(
            f"{len(matches) or 'no'} calibrations of {name} begin with {wanted!r} (there are: {ids}); "
            f"see them: dragoman status --calibration -c {name}"
        )
    if matches[0].model != collection.model:
        raise ModelMismatch(
            f"calibration {matches[0].id} is of model {matches[0].model} and collection {name} holds vectors of "
            f"model {collection.model}; make another: dragoman calibrate -c {name}"
        )
    return matches[0]


def _stored(row: CalibrationRow) -> StoredCalibration:
    return StoredCalibration(row.id, row.model, row.created, row.active, Summary.from_json(row.summary))
