"""Workers in the ledger: which are alive, their current chunks, and how much they stored."""

from dataclasses import asdict, dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.ledger.database import Base, changed_rows, clock, transaction

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
    """Time by which the worker's next heartbeat is due, in seconds of the database's clock."""
    run_id: Mapped[int | None]
    chunk: Mapped[int | None]
    documents: Mapped[int]
    """Number of documents that the worker encoded and stored."""
    error: Mapped[str]
    """Error that keeps the worker from work; empty without an error."""
    unread: Mapped[int] = mapped_column(default=0)
    """Number of messages that the worker could not read and set aside."""


@dataclass(frozen=True)
class Identity:
    """Constant properties of a worker; ``id`` is unique to its process, and ``build`` the id of the encoder's graph."""

    id: str
    host: str
    device: str
    model: str
    build: str


def record_heartbeat(
    engine: sa.Engine,
    identity: Identity,
    lease_seconds: float,
    chunk_key: tuple[int, int] | None,
    documents: int,
    error: str,
) -> None:
    """Record that a worker is alive for ``lease_seconds`` more; ``chunk_key`` is the run id and number of its chunk."""
    run_id, chunk = chunk_key or (None, None)
    until = clock() + lease_seconds
    values = {"until": until, "run_id": run_id, "chunk": chunk, "documents": documents, "error": error}
    with transaction(engine) as session:
        if not changed_rows(session, sa.update(Worker).where(Worker.id == identity.id).values(values)):
            session.execute(sa.insert(Worker).values({**asdict(identity), **values}))


def record_unread(engine: sa.Engine, model: str) -> None:
    """Count a message that workers of a model could not read."""
    first = sa.select(sa.func.min(Worker.id)).where(Worker.model == model, Worker.until > clock()).scalar_subquery()
    with transaction(engine) as session:
        changed_rows(session, sa.update(Worker).where(Worker.id == first).values(unread=Worker.unread + 1))


def sign_off(engine: sa.Engine, worker: str) -> None:
    """Remove a worker that ends."""
    with transaction(engine) as session:
        session.execute(sa.delete(Worker).where(Worker.id == worker))


def alive(engine: sa.Engine, model: str | None = None) -> list[Worker]:
    """Workers whose heartbeat is in time, of one model or of all."""
    query = sa.select(Worker).where(Worker.until > clock()).order_by(Worker.id)
    with transaction(engine) as session:
        return list(session.scalars(query if model is None else query.where(Worker.model == model)))


def remove_dead_workers(engine: sa.Engine) -> None:
    """Remove workers whose heartbeat is ten minutes overdue."""
    with transaction(engine) as session:
        changed_rows(session, sa.delete(Worker).where(Worker.until < clock() - _FORGOTTEN_AFTER))
