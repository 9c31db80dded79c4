"""Where following an attached index has come to: by shard, the number up to which everything is dealt with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from indexer.elastic.changes import NOTHING, ShardPosition
from indexer.ledger.database import Base, now, transaction
from indexer.ledger.ledger import Note, finding, findings
from indexer.ledger.tables import DONE, REFUSED, RUNNING, Finding, IndexRun


class Checkpoint(Base):
    """All writes of a shard up to a number are dealt with: each document has its vector, or is among the findings."""

    __tablename__ = "checkpoints"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    shard: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq_no: Mapped[int] = mapped_column(sa.BigInteger)
    history: Mapped[str] = mapped_column(default="")
    """Which numbering that is a number of; empty: nobody asked when it was written."""


class AttachedIndex(Base):
    """An index into which vectors of a collection were put: the alias that it was named by may lead elsewhere since."""

    __tablename__ = "attached_indices"

    collection: Mapped[str] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]


def remember(engine: sa.Engine, collection: str, uuid: str, name: str) -> None:
    """Write down that an index gets vectors of a collection, before it does."""
    with transaction(engine) as session:
        session.merge(AttachedIndex(collection=collection, uuid=uuid, name=name))


def remembered(engine: sa.Engine, collection: str) -> list[tuple[str, str]]:
    """Uuids and names of the indices that got vectors of a collection."""
    with transaction(engine) as session:
        query = sa.select(AttachedIndex).where(AttachedIndex.collection == collection).order_by(AttachedIndex.name)
        return [(one.uuid, one.name) for one in session.scalars(query)]


class AttachLedger:
    """The pages of one attached index: a run of the ledger that goes on for as long as the index is followed."""

    def __init__(self, engine: sa.Engine, run: IndexRun, *, begun: bool, interrupted: bool) -> None:
        """Use ``AttachLedger.open``."""
        self._engine = engine
        self.run = run
        self.begun = begun
        self.interrupted = interrupted

    @staticmethod
    def knows(engine: sa.Engine, collection: str, mark: str, model: str) -> bool:
        """Whether there is a run over this very index."""
        with transaction(engine) as session:
            query = sa.select(IndexRun.id).where(
                IndexRun.collection == collection, IndexRun.fingerprint == mark, IndexRun.model == model
            )
            return session.scalar(query) is not None

    @classmethod
    def open(cls, engine: sa.Engine, collection: str, source: str, mark: str, model: str, build: str) -> Self:
        """Go on with the run over this very index, or begin one: another index of the same name is read from its start.

        Runs over anything else are forgotten, with what they found.
        """
        with transaction(engine) as session:
            query = sa.select(IndexRun).where(IndexRun.collection == collection)
            same = None
            for run in session.scalars(query):
                if (run.fingerprint, run.model) == (mark, model):
                    same = run
                else:
                    session.execute(sa.delete(IndexRun).where(IndexRun.id == run.id))
            begun, interrupted = same is not None, same is not None and same.state == RUNNING
            found = same or IndexRun(
                collection=collection, sources=[source], fingerprint=mark, model=model, started=now()
            )
            found.state, found.build = RUNNING, build
            session.add(found)
            session.flush()
        return cls(engine, found, begun=begun, interrupted=interrupted)

    def position(self, shard: int, top: ShardPosition) -> int:
        """The number up to which a shard is dealt with, as far as it counts on from there."""
        found = self._checkpoint(shard)
        if found is None:
            return NOTHING
        known = found.history and top.history
        goes_on = found.history == top.history if known else found.seq_no <= top.seq_no
        return found.seq_no if goes_on else NOTHING

    def is_at(self, shard: int, top: ShardPosition) -> bool:
        """Whether nothing came since."""
        found = self._checkpoint(shard)
        return found is not None and found.history == top.history and self.position(shard, top) >= top.seq_no

    def _checkpoint(self, shard: int) -> Checkpoint | None:
        with transaction(self._engine) as session:
            return session.get(Checkpoint, (self.run.id, shard))

    def advance(
        self,
        shard: int,
        top: ShardPosition,
        doc_ids: Sequence[str],
        notes: Iterable[Note],
        *,
        encoded: int = 0,
        unchanged: int = 0,
    ) -> None:
        """All of a shard up to a number is dealt with; what was found about some documents before is outdated."""
        with transaction(self._engine) as session:
            self._forget(session, doc_ids)
            session.add_all(finding(self.run.id, note) for note in notes)
            session.merge(Checkpoint(run_id=self.run.id, shard=shard, seq_no=top.seq_no, history=top.history))
            run = session.get_one(IndexRun, self.run.id)
            run.encoded += encoded
            run.unchanged += unchanged
        self.run = run

    def _forget(self, session: sa.orm.Session, doc_ids: Sequence[str]) -> None:
        session.execute(sa.delete(Finding).where(Finding.run_id == self.run.id, Finding.doc_id.in_(doc_ids)))

    def refused(self) -> list[str]:
        """Ids of the documents to which nothing could be attached."""
        return [note.doc_id for note in self.findings() if note.kind == REFUSED]

    def findings(self) -> list[Note]:
        """What was refused or remarked, and still is so."""
        return findings(self._engine, [self.run.id])

    def gone(self, doc_ids: Sequence[str], pruned: int) -> None:
        """Some refused documents are there no more; of so many others what was attached is removed."""
        with transaction(self._engine) as session:
            self._forget(session, doc_ids)
            run = session.get_one(IndexRun, self.run.id)
            run.pruned += pruned
        self.run = run

    def finish(self) -> None:
        """All that was there is dealt with."""
        with transaction(self._engine) as session:
            run = session.get_one(IndexRun, self.run.id)
            run.state, run.finished = DONE, now()
        self.run = run
