"""Leases: how a worker takes, renews and returns chunks. Each change is one SQL statement that checks the old state."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.document import Document
from indexer.ledger.database import changed_rows, clock, now, transaction
from indexer.ledger.findings import Finding
from indexer.ledger.spool import unpack
from indexer.ledger.tables import DONE, LEASED, PENDING, RUNNING, SPLIT, Chunk, IndexRun, Spool

MOST_ATTEMPTS = 5
"""Attempts at a chunk before it is halved: a worker may also die for reasons other than a document."""
MOST_ATTEMPTS_OF_A_PART = 2
"""Attempts at a part of a chunk; fewer, because the chunk has failed before."""
_PARTS = 1 << 24
IS_PENDING = Chunk.state == sa.literal(PENDING, literal_execute=True)
"""Condition of a free chunk. The state is a literal, so that the planner can use the partial index of this state."""
DIED = "its worker died or stood still while it was encoded"


@dataclass(frozen=True)
class Lease:
    """A chunk, or a part of a chunk, that a worker has leased."""

    run_id: int
    number: int  # number of the chunk or part
    todo: tuple[int, ...]  # positions of the documents to encode, in the whole chunk
    attempts: int  # how often the chunk was leased, this time included
    error: str  # error of the previous attempt

    @property
    def whole(self) -> int:
        """Number of the whole chunk.

        A part's number is the chunk's plus a multiple of 2²⁴: once for the first half, twice for the second, and on as
        a binary tree's nodes. So two workers that halve a chunk at once create the same parts.
        """
        return self.number % _PARTS

    @property
    def halves(self) -> tuple[int, int]:
        """Numbers of the two halves."""
        node = self.number // _PARTS
        return self.whole + (2 * node + 1) * _PARTS, self.whole + (2 * node + 2) * _PARTS

    @property
    def is_spent(self) -> bool:
        """Whether the chunk has had all its attempts."""
        return self.attempts > (MOST_ATTEMPTS if self.number < _PARTS else MOST_ATTEMPTS_OF_A_PART)


class Leases:
    """A worker's access to the chunks of the ledger; ``worker`` is its id, unique to its process."""

    def __init__(
        self,
        engine: sa.Engine,
        worker: str,
        model: str,
        build: str,
        lease_seconds: float,
        refused: Callable[[int], object] = lambda _: None,
    ) -> None:
        """A chunk is free ``lease_seconds`` after ``renew``; ``refused`` is called with counts of refused documents."""
        self._refused = refused
        self._engine, self._build, self._lease_seconds = engine, build, lease_seconds
        self._is_open = (IndexRun.state == RUNNING, IndexRun.spooled, IndexRun.model == model)
        self.worker = worker

    def take(self, run_id: int, number: int) -> Lease | None:
        """Lease the chunk that a message names or, if that chunk is not free, the next free chunk; None without any.

        A chunk that has had all its attempts is halved first; if it has a single document, the document is refused.
        """
        for lease in iter(lambda: self._take(run_id, number), None):
            if not lease.is_spent:
                return lease
            if len(lease.todo) > 1:
                self._halve(lease)
            else:
                self._refuse(lease)
        return None

    def _take(self, run_id: int, number: int) -> Lease | None:
        with transaction(self._engine) as session:
            if self._engine.dialect.name == "postgresql":
                # A crash that loses a claim costs a chunk's work: the worker finds that its lease is gone.
                session.execute(sa.text("SET LOCAL synchronous_commit TO off"))
            if lease := self._claim(session, run_id, Chunk.number == number) or self._claim(session, run_id):
                return lease
            other_runs = sa.select(IndexRun.id).where(*self._is_open, IndexRun.id != run_id).order_by(IndexRun.id)
            other_ids = session.scalars(other_runs).all()
            return next((lease for other_id in other_ids if (lease := self._claim(session, other_id))), None)

    def _claim(self, session: Session, run_id: int, *conditions: sa.ColumnElement[bool]) -> Lease | None:
        active_run = sa.exists().where(IndexRun.id == run_id, *self._is_open)
        free_chunk = (
            sa.select(Chunk.number)
            .where(Chunk.run_id == run_id, IS_PENDING, active_run, *conditions)
            .order_by(Chunk.number)
            .limit(1)
            .with_for_update(skip_locked=True, of=Chunk)
        )
        claim = (
            sa.update(Chunk)
            .where(Chunk.run_id == run_id, Chunk.number == free_chunk.scalar_subquery())
            .values(
                state=LEASED,
                owner=self.worker,
                until=clock() + self._lease_seconds,
                attempts=Chunk.attempts + 1,
                build=self._build,
                updated=now(),
            )
            .returning(Chunk.number, Chunk.todo, Chunk.attempts, Chunk.error)
        )
        row = session.execute(claim, execution_options={"synchronize_session": False}).one_or_none()
        return row and Lease(run_id, row.number, tuple(index for index, flag in enumerate(row.todo) if flag), *row[2:])

    def _change(self, session: Session, lease: Lease, **values: Any) -> bool:
        """Change the chunk if this worker still holds its lease; returns whether it does."""
        chunk = Chunk.run_id == lease.run_id, Chunk.number == lease.number
        change = sa.update(Chunk).where(*chunk, Chunk.state == LEASED, Chunk.owner == self.worker).values(**values)
        return changed_rows(session, change) > 0

    def documents(self, lease: Lease) -> list[Document]:
        """The documents to encode; none if the run was cancelled."""
        with transaction(self._engine) as session:
            spool = session.get(Spool, (lease.run_id, lease.whole))
        documents = unpack(spool.documents) if spool else []
        return [documents[position] for position in lease.todo if documents]

    def run(self, lease: Lease) -> IndexRun | None:
        """The run of the chunk; None if the run was removed."""
        with transaction(self._engine) as session:
            return session.get(IndexRun, lease.run_id)

    def renew(self, lease: Lease) -> bool:
        """Renew the lease; false if another worker has the chunk by now, or the run was cancelled."""
        with transaction(self._engine) as session:
            return self._change(session, lease, until=clock() + self._lease_seconds)

    def done(self, lease: Lease, stored: int, refused: Iterable[Finding]) -> bool:
        """Mark the chunk done and count its documents; if this worker has lost the lease, change nothing: false."""
        with transaction(self._engine) as session:
            _lock_run(session, lease)
            if not self._change(session, lease, state=DONE, wanted=stored, error="", updated=now()):
                return False
            session.add_all(finding.row(lease.run_id) for finding in refused)
            session.flush()
            # Last, because every worker that marks a chunk waits for this row.
            count = sa.update(IndexRun).where(IndexRun.id == lease.run_id).values(encoded=IndexRun.encoded + stored)
            return changed_rows(session, count) > 0

    def give_back(self, lease: Lease, error: str) -> None:
        """Free the chunk without counting the attempt, because its documents are not the reason."""
        with transaction(self._engine) as session:
            self._change(session, lease, state=PENDING, attempts=Chunk.attempts - 1, error=error)

    def fail(self, lease: Lease, error: str) -> None:
        """Free the chunk and count the attempt, because the chunk could not be encoded."""
        with transaction(self._engine) as session:
            self._change(session, lease, state=PENDING, error=error, updated=now())

    def _halve(self, lease: Lease) -> None:
        middle = len(lease.todo) // 2
        with transaction(self._engine) as session:
            _lock_run(session, lease)
            if not self._change(session, lease, state=SPLIT, updated=now()):
                return
            chunk = session.get_one(Chunk, (lease.run_id, lease.number))
            for number, todo in zip(lease.halves, (lease.todo[:middle], lease.todo[middle:]), strict=True):
                part = Chunk(
                    run_id=chunk.run_id,
                    number=number,
                    state=PENDING,
                    documents=0,
                    todo=bytes(position in todo for position in range(len(chunk.todo))),
                    wanted=len(todo),
                    digest=chunk.digest,
                    updated=now(),
                )
                session.add(part)

    def _refuse(self, lease: Lease) -> None:
        documents = self.documents(lease)
        reason = f"it can't be encoded: {lease.error or DIED}"
        if self.done(lease, 0, [Finding.refusal(document.doc_id, reason) for document in documents]):
            self._refused(len(documents))


def _lock_run(session: Session, lease: Lease) -> None:
    """Lock a run's row, for which cancellations alone wait; always before rows of chunks, against deadlocks."""
    run_row = sa.select(IndexRun.id).where(IndexRun.id == lease.run_id)
    session.execute(run_row.with_for_update(read=True, key_share=True))
