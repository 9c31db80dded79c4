"""Workers as the ledger knows them: who is alive, what each is at, what each did."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.clock import clock
from indexer.ledger.database import Base, transaction

_FORGOTTEN_AFTER = 600.0


class Worker(Base):
    """A process that works on chunks."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    device: Mapped[str]
    model: Mapped[str]
    build: Mapped[str]
    until: Mapped[float]
    """When it must have shown a sign of life again, in seconds by the database's clock."""
    run_id: Mapped[int | None]
    chunk: Mapped[int | None]
    documents: Mapped[int]
    """That it encoded, and that were stored."""
    error: Mapped[str]
    """What keeps it from work; empty where nothing does."""


@dataclass(frozen=True)
class Identity:
    """What a worker is, as long as it lives.

    Attributes:
        id: of this process and no other.
        host: its machine.
        device: where it encodes.
        model: id of its vectors.
        build: id of its graph.
    """

    id: str
    host: str
    device: str
    model: str
    build: str


def show_life(
    engine: sa.Engine, who: Identity, seconds: float, at: tuple[int, int] | None, documents: int, error: str
) -> None:
    """Write down that a worker lives for so many seconds more, and what it is at."""
    run, chunk = at or (None, None)
    values = {"until": clock() + seconds, "run_id": run, "chunk": chunk, "documents": documents, "error": error}
    with transaction(engine) as session:
        known = session.execute(
            sa.update(Worker).where(Worker.id == who.id).values(values),
            execution_options={"synchronize_session": False},
        )
        if not known.rowcount:  # type: ignore[attr-defined]
            fixed = {"id": who.id, "host": who.host, "device": who.device, "model": who.model, "build": who.build}
            session.execute(sa.insert(Worker).values({**fixed, **values}))


def sign_off(engine: sa.Engine, worker: str) -> None:
    """The worker ends."""
    with transaction(engine) as session:
        session.execute(sa.delete(Worker).where(Worker.id == worker))


def alive(engine: sa.Engine, model: str | None = None) -> list[Worker]:
    """Workers that showed a sign of life in time, of one model or all."""
    query = sa.select(Worker).where(Worker.until > clock()).order_by(Worker.id)
    with transaction(engine) as session:
        return list(session.scalars(query if model is None else query.where(Worker.model == model)))


def forget_the_dead(engine: sa.Engine) -> None:
    """Remove those that showed no sign of life for long."""
    with transaction(engine) as session:
        gone = sa.delete(Worker).where(Worker.until < clock() - _FORGOTTEN_AFTER)
        session.execute(gone, execution_options={"synchronize_session": False})
