"""The runs of a collection: their states and their temporary rows."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.errors import BadInput
from indexer.ledger.database import changed_rows, clock, transaction
from indexer.ledger.findings import Finding, findings_of
from indexer.ledger.tables import ACTIVE, DONE, PAUSED, REFUSED, RUNNING, Chunk, IndexRun, SeenDocument, Spool


class RunLedger:
    """A run's row, and what was refused and remarked in the run; ``resumed``: an earlier call began the run."""

    def __init__(self, engine: sa.Engine, run: IndexRun, *, resumed: bool = False) -> None:
        """The ledger of a run that exists; ``open`` of a subclass begins or resumes a run."""
        self._engine = engine
        self.run = run
        self.resumed = resumed

    def findings(self) -> list[Finding]:
        """What was refused or remarked in this run."""
        return findings_of(self._engine, [self.run.id])

    def refusals(self) -> list[Finding]:
        """What was refused in this run."""
        return findings_of(self._engine, [self.run.id], REFUSED)


def refuse_while_workers(engine: sa.Engine, collection: str, *, unless: str = "", reencoding: bool = False) -> None:
    """Raise BadInput while workers work on a run, except a run of the model ``unless`` and of this ``reencoding``."""
    for run in runs(engine, collection):
        if (run.model, bool(run.again)) != (unless, reencoding):
            refuse_if_at_work(run)


def refuse_if_at_work(run: IndexRun) -> None:
    """Raise ``BadInput`` if workers work on a run, or the run is paused."""
    if run.spooled and run.state in {RUNNING, PAUSED}:
        raise BadInput(
            f"workers are at run {run.id} of collection {run.collection}; wait for its end "
            f"(dragoman status --watch -c {run.collection}), or cancel it: dragoman cancel -c {run.collection}"
        )


def due_sweep() -> sa.ColumnElement[float]:
    """A time of the last sweep, ten seconds ago, by which a sweep is due and a clock that is set back shows."""
    return clock() - 10.0


def change_state(session: Session, run_id: int, before: Sequence[str], after: str) -> bool:
    """Change a run's state from one of ``before`` to ``after``; returns whether the run was in one of these states.

    Call this first in a transaction: until its end no other process changes the run, also on SQLite, which has no
    ``SELECT … FOR UPDATE`` and takes its lock at the first write.
    """
    values = {"state": after, **({"swept": due_sweep()} if after == RUNNING else {})}
    change = sa.update(IndexRun).where(IndexRun.id == run_id, IndexRun.state.in_(before)).values(values)
    return changed_rows(session, change) > 0


def runs(engine: sa.Engine, collection: str) -> list[IndexRun]:
    """A collection's runs, oldest first."""
    with transaction(engine) as session:
        query = sa.select(IndexRun).where(IndexRun.collection == collection).order_by(IndexRun.id)
        return list(session.scalars(query))


def has_spooled(engine: sa.Engine, collection: str) -> bool:
    """Whether documents of a collection are spooled for workers."""
    query = sa.select(Spool.run_id).join(IndexRun, IndexRun.id == Spool.run_id)
    with transaction(engine) as session:
        return session.scalar(query.where(IndexRun.collection == collection).limit(1)) is not None


def active_reencoding(engine: sa.Engine, collection: str) -> IndexRun | None:
    """The active run in which workers encode a collection's own documents again; None if there is no such run."""
    return next((run for run in runs(engine, collection) if run.again and run.state in ACTIVE), None)


def forget_collection(engine: sa.Engine, collection: str) -> None:
    """Remove a collection's runs with their chunks and findings."""
    with transaction(engine) as session:
        session.execute(sa.delete(IndexRun).where(IndexRun.collection == collection))


def forget_chunks(session: Session, run_id: int) -> None:
    """Delete a run's temporary rows."""
    session.execute(sa.delete(SeenDocument).where(SeenDocument.run_id == run_id))
    session.execute(sa.delete(Spool).where(Spool.run_id == run_id))
    session.execute(sa.delete(Chunk).where(Chunk.run_id == run_id))


def builds(session: Session, run_id: int) -> dict[str, int]:
    """Number of documents encoded and stored by each build, in a run whose chunks still exist."""
    query = sa.select(Chunk.build, sa.func.sum(Chunk.wanted)).where(
        Chunk.run_id == run_id, Chunk.state == DONE, Chunk.wanted > 0
    )
    return {build or "": int(wanted) for build, wanted in session.execute(query.group_by(Chunk.build))}
