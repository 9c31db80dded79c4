"""How far a run of workers is: what ``dragoman status --watch`` and a waiting ``dragoman index`` show."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.errors import StoreError
from indexer.ledger.database import transaction
from indexer.ledger.tables import ACTIVE, DONE, LEASED, PENDING, RUNNING, SPLIT, Chunk, IndexRun
from indexer.workers import registry
from indexer.workers.registry import Worker

_ERRORS = 5
_WINDOW = 60.0


@dataclass(frozen=True)
class RunProgress:
    """A run as it stands.

    Attributes:
        run: its row.
        chunks: how many are in each state, the parts of halved ones among them.
        documents: to encode in all, those that are stored unchanged left out; of a run that is over, those it stored.
        done: of these, in chunks that are done.
        workers: that are alive and have the run's model.
        errors: of chunks and workers, the newest first.
    """

    run: IndexRun
    chunks: dict[str, int]
    documents: int
    done: int
    workers: list[Worker]
    errors: list[str]


def run_progress(engine: sa.Engine, run_id: int) -> RunProgress:
    """How far a run is.

    Raises:
        StoreError: the database is away, or the run was removed with its collection.
    """
    with transaction(engine) as session:
        count, wanted = sa.func.count(), sa.func.sum(Chunk.wanted)
        by_state = sa.select(Chunk.state, count, wanted).where(Chunk.run_id == run_id).group_by(Chunk.state)
        rows = {state: (number, int(documents)) for state, number, documents in session.execute(by_state)}
        wrong = sa.select(Chunk.number, Chunk.owner, Chunk.error).where(
            Chunk.run_id == run_id, Chunk.state.not_in((DONE, SPLIT)), Chunk.error != ""
        )
        newest = session.execute(wrong.order_by(Chunk.updated.desc()).limit(_ERRORS)).all()
        run = session.get(IndexRun, run_id)  # after its chunks, which are gone once it is over
    if run is None:
        raise StoreError(f"run {run_id} is not in the ledger; its collection was deleted")
    rows.pop(SPLIT, None)
    is_over = run.state not in ACTIVE
    workers = registry.alive(engine, run.model)
    errors = [f"{worker.id}: {worker.error}" for worker in workers if worker.error]
    errors += [f"chunk {number}, {owner}: {error}" for number, owner, error in newest]
    return RunProgress(
        run=run,
        chunks={state: number for state, (number, _) in sorted(rows.items())},
        documents=run.encoded if is_over else sum(documents for _, documents in rows.values()),
        done=run.encoded if is_over else rows.get(DONE, (0, 0))[1],
        workers=workers,
        errors=errors[:_ERRORS],
    )


class Rate:
    """Documents a second over the last minute, of all workers."""

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, done: int) -> float:
        """So many are done now; the rate up to now."""
        now = time.monotonic()
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        # documents that were refused stand in no count of a run that is over
        return max(0.0, (done - before) / (now - since)) if now > since else 0.0


def is_waiting(state: RunProgress) -> bool:
    """Whether there is work and nobody to do it."""
    return bool(state.chunks.get(PENDING)) and not state.workers


def is_worked_off(state: RunProgress) -> bool:
    """Whether every chunk is done, and only the run's end is left."""
    return state.run.state == RUNNING and not (state.chunks.get(PENDING) or state.chunks.get(LEASED))
