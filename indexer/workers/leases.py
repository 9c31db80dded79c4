"""Chunks as one worker takes, keeps and returns them. Each change is one statement that says what it found before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from encoders.document import Document
from indexer.ledger.clock import clock
from indexer.ledger.database import now, transaction
from indexer.ledger.ledger import Note, finding
from indexer.ledger.tables import DONE, LEASED, PENDING, REFUSED, RUNNING, SPLIT, Chunk, IndexRun, Spool
from indexer.workers.spool import unpacked

MOST_ATTEMPTS = 5
"""Times that a chunk is tried before it is halved: workers die of other things than documents."""
MOST_ATTEMPTS_OF_A_PART = 2
"""The same for a part of a chunk: something in it is known to be wrong."""
_PARTS = 1 << 24
IS_PENDING = Chunk.state == sa.literal(PENDING, literal_execute=True)
"""Spelled out in the statement: the index of free chunks is of this state, which a plan for any state can't use."""
DIED = "its worker died or stood still while it was encoded"


@dataclass(frozen=True)
class Lease:
    """A chunk that a worker has.

    Attributes:
        run: its run.
        number: of the chunk, or of the part of it.
        todo: positions of the documents to encode, in the chunk they were read in.
        attempts: how often it was taken, this time included.
        error: of the attempt before.
    """

    run: int
    number: int
    todo: tuple[int, ...]
    attempts: int
    error: str

    @property
    def whole(self) -> int:
        """Number of the chunk that this is, or is a part of.

        A part's number is the chunk's plus a multiple of 2²⁴: once for the first half, twice for the second, and so on
        as the nodes of a binary tree are counted. So two workers that halve at once make the same parts.
        """
        return self.number % _PARTS

    @property
    def halves(self) -> tuple[int, int]:
        """Numbers of its two halves."""
        node = self.number // _PARTS
        return self.whole + (2 * node + 1) * _PARTS, self.whole + (2 * node + 2) * _PARTS

    @property
    def is_spent(self) -> bool:
        """Whether it was tried often enough."""
        return self.attempts > (MOST_ATTEMPTS if self.number < _PARTS else MOST_ATTEMPTS_OF_A_PART)


class Leases:
    """One worker's hand on the ledger.

    Attributes:
        worker: its id.
    """

    def __init__(
        self,
        engine: sa.Engine,
        worker: str,
        model: str,
        build: str,
        seconds: float,
        *,
        refused: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Take and keep chunks for a worker.

        Args:
            engine: the ledger's database.
            worker: its id, of this one process and no other.
            model: chunks of other models are not taken.
            build: written down with what it encodes.
            seconds: after which a chunk is anybody's whose worker showed no sign of life.
            refused: told how many documents were refused because they can't be encoded.
        """
        self._refused = refused
        self._engine, self._model, self._build, self._seconds = engine, model, build, seconds
        self.worker = worker

    def take(self, run: int, number: int) -> Lease | None:
        """The chunk that a message named; else, if somebody has it, the next that is free; None where there is none.

        Chunks that were tried too often are halved on the way, or, at one document, refused.
        """
        for lease in iter(lambda: self._take(run, number), None):
            if not lease.is_spent:
                return lease
            if len(lease.todo) > 1:
                self._halve(lease)
            else:
                self._refuse(lease)
        return None

    def _take(self, run: int, number: int) -> Lease | None:
        with transaction(self._engine) as session:
            if self._engine.dialect.name == "postgresql":
                # A claim that a crash forgets costs a chunk's work: its worker finds that it has the chunk no more.
                session.execute(sa.text("SET LOCAL synchronous_commit TO off"))
            if found := self._claim(session, run, Chunk.number == number) or self._claim(session, run):
                return found
            mine = (IndexRun.state == RUNNING, IndexRun.spooled, IndexRun.model == self._model, IndexRun.id != run)
            others = session.scalars(sa.select(IndexRun.id).where(*mine).order_by(IndexRun.id)).all()
            return next((found for other in others if (found := self._claim(session, other))), None)

    def _claim(self, session: Session, run: int, *which: sa.ColumnElement[bool]) -> Lease | None:
        going = sa.exists().where(
            IndexRun.id == run, IndexRun.state == RUNNING, IndexRun.spooled, IndexRun.model == self._model
        )
        free = (
            sa.select(Chunk.number)
            .where(Chunk.run_id == run, IS_PENDING, going, *which)
            .order_by(Chunk.number)
            .limit(1)
            .with_for_update(skip_locked=True, of=Chunk)
        )
        claim = (
            sa.update(Chunk)
            .where(Chunk.run_id == run, Chunk.number == free.scalar_subquery())
            .values(
                state=LEASED,
                owner=self.worker,
                until=clock() + self._seconds,
                attempts=Chunk.attempts + 1,
                build=self._build,
                updated=now(),
            )
            .returning(Chunk.number, Chunk.todo, Chunk.attempts, Chunk.error)
        )
        row = session.execute(claim, execution_options={"synchronize_session": False}).one_or_none()
        return row and Lease(run, row.number, tuple(at for at, one in enumerate(row.todo) if one), *row[2:])

    def _mine(self, lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            Chunk.run_id == lease.run,
            Chunk.number == lease.number,
            Chunk.state == LEASED,
            Chunk.owner == self.worker,
        )

    def _change(self, session: Session, lease: Lease, **values: Any) -> bool:
        """Change the chunk if the worker still has it; whether it did."""
        update = sa.update(Chunk).where(*self._mine(lease)).values(**values)
        result = session.execute(update, execution_options={"synchronize_session": False})
        return bool(result.rowcount)  # type: ignore[attr-defined]

    def documents(self, lease: Lease) -> list[Document]:
        """What is to be encoded; nothing if the run was given up."""
        with transaction(self._engine) as session:
            spool = session.get(Spool, (lease.run, lease.whole))
        documents = unpacked(spool.documents) if spool else []
        return [documents[at] for at in lease.todo if documents]

    def run(self, lease: Lease) -> IndexRun | None:
        """The run that a chunk is of; None once it was removed."""
        with transaction(self._engine) as session:
            return session.get(IndexRun, lease.run)

    def keep(self, lease: Lease) -> bool:
        """Have it for a whole lease more; false where another has it by now, or its run was given up."""
        with transaction(self._engine) as session:
            return self._change(session, lease, until=clock() + self._seconds)

    def done(self, lease: Lease, stored: int, notes: Iterable[Note]) -> bool:
        """Its documents are in the store; false where another has it: who then does the same once more, and counts."""
        with transaction(self._engine) as session:
            _keep_run(session, lease)
            if not self._change(session, lease, state=DONE, wanted=stored, error="", updated=now()):
                return False
            session.add_all(finding(lease.run, note) for note in notes)
            session.flush()
            counted = sa.update(IndexRun).where(IndexRun.id == lease.run).values(encoded=IndexRun.encoded + stored)
            session.execute(counted, execution_options={"synchronize_session": False})  # last: all marks wait for it
            return True

    def give_back(self, lease: Lease, error: str) -> None:
        """Let others have it, as if it had not been taken: the reason is not in its documents."""
        with transaction(self._engine) as session:
            self._change(session, lease, state=PENDING, attempts=Chunk.attempts - 1, error=error)

    def fail(self, lease: Lease, error: str) -> None:
        """Let others have it, and count that it could not be encoded."""
        with transaction(self._engine) as session:
            self._change(session, lease, state=PENDING, error=error, updated=now())

    def _halve(self, lease: Lease) -> None:
        middle = len(lease.todo) // 2
        with transaction(self._engine) as session:
            _keep_run(session, lease)
            if not self._change(session, lease, state=SPLIT, updated=now()):
                return
            whole = session.get_one(Chunk, (lease.run, lease.number))
            parts = zip(lease.halves, (lease.todo[:middle], lease.todo[middle:]), strict=True)
            session.add_all(_part(whole, number, todo) for number, todo in parts)

    def _refuse(self, lease: Lease) -> None:
        documents = self.documents(lease)
        why = f"it can't be encoded: {lease.error or DIED}"
        if self.done(lease, 0, [Note(REFUSED, document.doc_id, document.doc_id, why) for document in documents]):
            self._refused(len(documents))


def _keep_run(session: Session, lease: Lease) -> None:
    """Whoever gives the run up waits until this transaction ends; other workers don't.

    To be its first: of a run's row and its chunks', the run's is locked first, else two wait for each other.
    """
    of_run = sa.select(IndexRun.id).where(IndexRun.id == lease.run)
    session.execute(of_run.with_for_update(read=True, key_share=True))


def _part(whole: Chunk, number: int, todo: Sequence[int]) -> Chunk:
    flags = bytearray(len(whole.todo))
    for at in todo:
        flags[at] = True
    return Chunk(
        run_id=whole.run_id,
        number=number,
        state=PENDING,
        documents=0,
        todo=bytes(flags),
        wanted=len(todo),
        digest=whole.digest,
        updated=now(),
    )
