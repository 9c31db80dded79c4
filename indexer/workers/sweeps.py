"""Sweeps: free chunks of ended leases, replace lost messages, end finished runs. The workers take turns."""

import shutil
from collections.abc import Callable
from contextlib import closing

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import DragomanError
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.indexing import pruning
from indexer.ledger.database import changed_rows, clock, read_database_id, transaction
from indexer.ledger.index_runs import due_sweep
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import LEASED, PENDING, RUNNING, Chunk, IndexRun
from indexer.workers.hints import Hints
from indexer.workers.leases import DIED, IS_PENDING
from indexer.workers.logs import LogConsole, logger
from indexer.workers.registry import Worker, remove_dead_workers

MOST_AT_ONCE = 1_000
"""Maximum messages that one sweep sends; the next sweep sends more."""
_ENOUGH = 10_000
"""Maximum messages in the queue: a message is for any chunk, and counting a million chunks takes a second."""
_LOG = LogConsole()

OnFailedEnd = Callable[[IndexRun, DragomanError], None]
"""Called with a run whose end failed, by each sweep that tries."""


def log_failed_end(run: IndexRun, error: DragomanError) -> None:
    """Log that a run's end failed."""
    logger.warning("every chunk is done, and the run's end failed: %s", error, extra={"run": run.id})


def sweep(
    engine: sa.Engine,
    settings: Settings,
    hints: Hints,
    model: str,
    every: float,
    on_failed_end: OnFailedEnd = log_failed_end,
    console: Console = _LOG,
) -> list[int]:
    """Sweep the runs of a model, unless another worker just did; returns the ids of the runs that ended.

    Two sweeps at once, or an interrupted sweep, do no harm. All workers' sweeps are at least ``every`` seconds apart.
    ``on_failed_end`` is called with each run whose end failed; the next sweep tries again. Raises StoreError: the
    database or the broker is away.
    """
    _follow_clock(engine)
    if not _take_turn(engine, model, every):
        return []
    remove_dead_workers(engine)
    send_hints(engine, hints, model)
    with transaction(engine) as session:
        runs = list(session.scalars(sa.select(IndexRun).where(*_IS_GOING, IndexRun.model == model, ~_HAS_OPEN_CHUNKS)))
    ended = []
    for run in runs:
        try:
            end_run(engine, settings, run, console)
        except DragomanError as error:
            on_failed_end(run, error)
        else:
            ended.append(run.id)
    return ended


def send_hints(engine: sa.Engine, hints: Hints, model: str) -> None:
    """Free the chunks of ended leases, and send messages until every free chunk has one, up to a limit."""
    with transaction(engine) as session:
        # Skip rows that another worker has locked: a statement that locks many rows must never wait for a lock.
        ended_leases = sa.select(Chunk.run_id, Chunk.number).where(Chunk.state == LEASED, Chunk.until < clock())
        is_ended = sa.tuple_(Chunk.run_id, Chunk.number).in_(ended_leases.with_for_update(skip_locked=True))
        release = sa.update(Chunk).where(is_ended, Chunk.state == LEASED).values(state=PENDING, error=DIED)
        changed_rows(session, release)
    run_ids = [run.id for run in active_runs(engine, model)]
    with transaction(engine) as session:
        pending = sa.select(Chunk.run_id, Chunk.number).where(Chunk.run_id.in_(run_ids), IS_PENDING)
        count = sa.select(sa.func.count()).select_from(pending.limit(_ENOUGH).subquery())
        waiting_chunks = session.scalar(count) or 0
        missing_messages = min(waiting_chunks - hints.waiting(model), MOST_AT_ONCE) if waiting_chunks else 0
        first_chunks = pending.order_by(Chunk.run_id, Chunk.number).limit(max(missing_messages, 0))
        chunks = [(run_id, number) for run_id, number in session.execute(first_chunks)] if missing_messages > 0 else []
    if chunks:
        hints.send(model, chunks)


def _follow_clock(engine: sa.Engine) -> None:
    """If the database's clock was set back, set leases and heartbeats back by as much.

    A last sweep in the future shows it. A dead worker's chunk would stay leased until the clock reaches the old time. A
    run whose chunks become free counts as swept.
    """
    with transaction(engine) as session:
        swept = session.scalar(sa.select(sa.func.max(IndexRun.swept)).where(IndexRun.swept > clock()))
        if swept is None:
            return
        if not changed_rows(session, sa.update(IndexRun).where(IndexRun.swept > clock()).values(swept=due_sweep())):
            return  # another sweep did it
        for row, keys in ((Chunk, (Chunk.run_id, Chunk.number)), (Worker, (Worker.id,))):
            ahead = sa.select(*keys).where(row.until > swept).with_for_update(skip_locked=True)
            shift = sa.update(row).where(sa.tuple_(*keys).in_(ahead)).values(until=row.until - swept + clock())
            changed_rows(session, shift)


def _take_turn(engine: sa.Engine, model: str, every: float) -> bool:
    first_run = sa.select(sa.func.min(IndexRun.id)).where(*_IS_GOING, IndexRun.model == model).scalar_subquery()
    is_due = IndexRun.swept < clock() - every
    claim_turn = sa.update(IndexRun).where(IndexRun.id == first_run, is_due).values(swept=clock())
    with transaction(engine) as session:
        return changed_rows(session, claim_turn) > 0


def active_runs(engine: sa.Engine, model: str | None = None) -> list[IndexRun]:
    """Runs that workers should work on, of one model or of all."""
    query = sa.select(IndexRun).where(*_IS_GOING).order_by(IndexRun.id)
    with transaction(engine) as session:
        return list(session.scalars(query if model is None else query.where(IndexRun.model == model)))


def end_run(engine: sa.Engine, settings: Settings, run: IndexRun, console: Console) -> None:
    """End a run whose chunks are all done: prune and publish the store, switch to a rebuild by the same model.

    ``switch_built`` switches to another model, whose calibration is made before. A late worker finds the run over and
    changes nothing. Raises StoreError: it failed; repeat the call.
    """
    collection = collections.find(engine, run.collection)
    if collection is None:
        return
    ledger = Ledger(engine, run)
    database_id = read_database_id(engine)
    with closing(collection.open_store(settings, generation=run.generation, database_id=database_id)) as store:
        pruned = pruning.prune(ledger, store, console) if run.prune else 0
        building = collection.building or {}
        built = building if building.get("number") == run.generation else None
        # an empty index must not take the place of the searched one
        if store.count() and (built is None or built["model"] == collection.model):
            store.publish()
            if built:
                generations.switch(engine, collection.name, settings)
    shutil.rmtree(settings.checkpoints(run.collection), ignore_errors=True)  # those of documents that were refused
    ledger.finish(pruned)


_IS_GOING = (IndexRun.state == RUNNING, IndexRun.spooled)
_HAS_OPEN_CHUNKS = sa.exists().where(Chunk.run_id == IndexRun.id, Chunk.state.in_((PENDING, LEASED)))
"""Queried in one statement with the run's state: between pending and leased, a chunk is always in one of the two."""
