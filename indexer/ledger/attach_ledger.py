"""How far an attached index has been followed: by shard, the last sequence number that is dealt with."""

from collections.abc import Collection, Iterable, Sequence
from typing import Self

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from encoders.document import EncoderSpec
from indexer.cluster.index_changes import NOTHING, ShardPosition
from indexer.ledger.database import Base, now, transaction
from indexer.ledger.findings import Finding
from indexer.ledger.index_runs import RunLedger
from indexer.ledger.ledger import PAGE
from indexer.ledger.tables import DONE, RUNNING, AttachedIndex, FindingRow, IndexRun


class Checkpoint(Base):
    """The number up to which a shard's writes are dealt with: each document has its vector or a finding."""

    __tablename__ = "checkpoints"

    run_id: Mapped[int] = mapped_column(sa.ForeignKey("index_runs.id", ondelete="CASCADE"), primary_key=True)
    shard: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq_no: Mapped[int] = mapped_column(sa.BigInteger)
    history: Mapped[str] = mapped_column(default="")
    """Id of the numbering that ``seq_no`` belongs to; empty if it was unknown when the row was written."""


def remember(engine: sa.Engine, collection: str, uuid: str, name: str) -> None:
    """Write down that an index will get vectors of a collection; to be called before it gets them."""
    with transaction(engine) as session:
        session.merge(AttachedIndex(collection=collection, uuid=uuid, name=name))


def remembered(engine: sa.Engine, collection: str) -> list[tuple[str, str]]:
    """Uuids and names of the indices that got vectors of a collection."""
    with transaction(engine) as session:
        query = sa.select(AttachedIndex).where(AttachedIndex.collection == collection).order_by(AttachedIndex.name)
        return [(index.uuid, index.name) for index in session.scalars(query)]


def followed(engine: sa.Engine, collection: str) -> list[str]:
    """Names of the indices that a collection has now and that were caught up with."""
    of_index = (IndexRun.collection == collection, IndexRun.fingerprint.startswith(AttachedIndex.uuid))
    is_followed = sa.exists().where(*of_index, IndexRun.finished.is_not(None))
    with transaction(engine) as session:
        query = sa.select(AttachedIndex.name).where(AttachedIndex.collection == collection, is_followed)
        return sorted(set(session.scalars(query)))


class AttachLedger(RunLedger):
    """The ledger of an attached index: one run for as long as it is followed; ``interrupted``: the last call was."""

    interrupted = False

    @staticmethod
    def knows(engine: sa.Engine, collection: str, fingerprint: str, model: str) -> bool:
        """Whether there is a run over this index and model."""
        with transaction(engine) as session:
            query = sa.select(IndexRun.id).where(
                IndexRun.collection == collection, IndexRun.fingerprint == fingerprint, IndexRun.model == model
            )
            return session.scalar(query) is not None

    @classmethod
    def open(
        cls,
        engine: sa.Engine,
        collection: str,
        source: str,
        fingerprint: str,
        spec: EncoderSpec,
        *,
        beside: Collection[str] = (),
        away: Collection[str] = (),
    ) -> Self:
        """Resume or begin the run over this index; delete runs of other models, or of indices not ``beside`` it.

        Runs over indices that are ``away`` for now are kept, as unfinished.
        """
        with transaction(engine) as session:
            query = sa.select(IndexRun).where(IndexRun.collection == collection)
            earlier = None
            for collection_run in session.scalars(query):
                if (collection_run.fingerprint, collection_run.model) == (fingerprint, spec.model):
                    earlier = collection_run
                elif collection_run.fingerprint in away and collection_run.model == spec.model:
                    collection_run.finished = None
                elif collection_run.fingerprint not in beside or collection_run.model != spec.model:
                    session.execute(sa.delete(IndexRun).where(IndexRun.id == collection_run.id))
            interrupted = earlier is not None and earlier.state == RUNNING
            run = earlier or IndexRun(
                collection=collection, sources=[source], fingerprint=fingerprint, model=spec.model, started=now()
            )
            run.state, run.build = RUNNING, spec.build
            session.add(run)
            session.flush()
        ledger = cls(engine, run, resumed=earlier is not None)
        ledger.interrupted = interrupted
        return ledger

    def position(self, shard: int, top: ShardPosition) -> int:
        """The number up to which a shard is dealt with; ``NOTHING`` if the shard's numbering began anew since."""
        checkpoint = self._checkpoint(shard)
        if checkpoint is None:
            return NOTHING
        histories_known = checkpoint.history and top.history
        same_numbering = checkpoint.history == top.history if histories_known else checkpoint.seq_no <= top.seq_no
        return checkpoint.seq_no if same_numbering else NOTHING

    def is_at(self, shard: int, top: ShardPosition) -> bool:
        """Whether a shard has no writes after its checkpoint."""
        checkpoint = self._checkpoint(shard)
        return checkpoint is not None and checkpoint.history == top.history and self.position(shard, top) >= top.seq_no

    def _checkpoint(self, shard: int) -> Checkpoint | None:
        with transaction(self._engine) as session:
            return session.get(Checkpoint, (self.run.id, shard))

    def advance(
        self,
        shard: int,
        top: ShardPosition,
        doc_ids: Sequence[str],
        refused: Iterable[Finding],
        *,
        encoded: int = 0,
        unchanged: int = 0,
    ) -> None:
        """Move a shard's checkpoint to ``top``, and replace the findings about documents by ``refused``."""
        with transaction(self._engine) as session:
            self._forget(session, doc_ids)
            session.add_all(finding.row(self.run.id) for finding in refused)
            session.merge(Checkpoint(run_id=self.run.id, shard=shard, seq_no=top.seq_no, history=top.history))
            run = session.get_one(IndexRun, self.run.id)
            run.encoded += encoded
            run.unchanged += unchanged
        self.run = run

    def _forget(self, session: sa.orm.Session, doc_ids: Sequence[str]) -> None:
        """Delete the findings about documents, a page of ids at a time."""
        for start in range(0, len(doc_ids), PAGE):
            page = FindingRow.doc_id.in_(doc_ids[start : start + PAGE])
            session.execute(sa.delete(FindingRow).where(FindingRow.run_id == self.run.id, page))

    def record_deletions(self, doc_ids: Sequence[str], pruned: int) -> None:
        """Delete the findings of deleted documents, and add the number of documents that were pruned."""
        with transaction(self._engine) as session:
            self._forget(session, doc_ids)
            run = session.get_one(IndexRun, self.run.id)
            run.pruned += pruned
        self.run = run

    def finish(self) -> None:
        """Mark the run as done: every document is dealt with."""
        with transaction(self._engine) as session:
            run = session.get_one(IndexRun, self.run.id)
            run.state, run.finished = DONE, now()
        self.run = run
