"""Progress of a run by workers, as ``dragoman status --watch`` and a waiting ``dragoman index`` show it."""

import time
from collections import deque
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.errors import StoreError
from encoders.phrases import counted
from indexer.ledger.database import transaction
from indexer.ledger.tables import ACTIVE, DONE, LEASED, PAUSED, PENDING, RUNNING, SPLIT, Chunk, IndexRun
from indexer.workers import registry
from indexer.workers.registry import Worker

_ERRORS = 5
_WINDOW = 60.0


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run."""

    run: IndexRun
    chunks: dict[str, int]  # number of chunks by state, including the parts of halved chunks
    documents: int  # documents to encode in all, without those stored unchanged; after the end, the documents stored
    read: int  # documents read from the sources so far, with those stored unchanged
    done: int  # documents in finished chunks
    workers: list[Worker]
    errors: list[str]  # errors of workers, then of chunks, newest chunk first

    @property
    def is_waiting(self) -> bool:
        """Whether chunks are pending and no worker is alive."""
        return bool(self.chunks.get(PENDING)) and not self.workers

    @property
    def awaits_end(self) -> bool:
        """Whether the running run has no open chunk, so that only its end remains."""
        return self.run.state == RUNNING and not (self.chunks.get(PENDING) or self.chunks.get(LEASED))


def run_progress(engine: sa.Engine, run_id: int) -> RunProgress:
    """Progress of a run. Raises StoreError: the database is away, or the run was removed with its collection."""
    with transaction(engine) as session:
        count, wanted, read = sa.func.count(), sa.func.sum(Chunk.wanted), sa.func.sum(Chunk.documents)
        by_state = sa.select(Chunk.state, count, wanted, read).where(Chunk.run_id == run_id).group_by(Chunk.state)
        counts_by_state = {state: tuple(map(int, counts)) for state, *counts in session.execute(by_state)}
        failed_chunks = sa.select(Chunk.number, Chunk.owner, Chunk.error).where(
            Chunk.run_id == run_id, Chunk.state.not_in((DONE, SPLIT)), Chunk.error != ""
        )
        newest_errors = session.execute(failed_chunks.order_by(Chunk.updated.desc()).limit(_ERRORS)).all()
        run = session.get(IndexRun, run_id)  # queried after its chunks, which are deleted when the run is over
    if run is None:
        raise StoreError(f"run {run_id} is not in the ledger; its collection was deleted")
    counts_by_state.pop(SPLIT, None)
    is_over = run.state not in ACTIVE
    workers = registry.alive(engine, run.model)
    errors = [f"{worker.id}: {worker.error}" for worker in workers if worker.error]
    if unread := sum(worker.unread for worker in workers):
        errors.append(f"{counted(unread, 'message')} of the broker could not be read: set aside, the run goes on")
    errors += [f"chunk {number}, {owner}: {error}" for number, owner, error in newest_errors]
    return RunProgress(
        run=run,
        chunks={state: chunks for state, (chunks, _, _) in sorted(counts_by_state.items())},
        documents=run.encoded if is_over else sum(documents for _, documents, _ in counts_by_state.values()),
        read=sum(read for _, _, read in counts_by_state.values()),
        done=run.encoded if is_over else counts_by_state.get(DONE, (0, 0, 0))[1],
        workers=workers,
        errors=errors[:_ERRORS],
    )


def standstill_reason(progress: RunProgress) -> str:
    """Why a run makes no progress, and what to do; empty where the run goes on."""
    run = progress.run
    if run.state == PAUSED:
        return f"run {run.id} is paused; let it go on: dragoman resume -c {run.collection}"
    if run.state == RUNNING and progress.is_waiting:
        return f"no worker of its model is alive; start one: dragoman worker -c {run.collection}"
    return ""


class Rate:
    """Documents per second over the last minute, of all workers."""

    def __init__(self) -> None:
        """Start without counts."""
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, done: int) -> float:
        """Add the number of documents done so far; returns the rate in documents per second."""
        now = time.monotonic()
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        # 0 at least: a finished run's count leaves out refused documents
        return max(0.0, (done - before) / (now - since)) if now > since else 0.0
