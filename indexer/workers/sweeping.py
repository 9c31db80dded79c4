"""What a run needs besides work: leases that ended, messages that got lost, its end. Any worker does it, in turn."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import DragomanError
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.indexing import pruning
from indexer.ledger.clock import clock
from indexer.ledger.database import owner_of, transaction
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import LEASED, PENDING, RUNNING, Chunk, IndexRun
from indexer.settings import Settings
from indexer.stores.factory import open_store
from indexer.workers.hints import Hints
from indexer.workers.leases import DIED, IS_PENDING
from indexer.workers.logs import logger
from indexer.workers.registry import forget_the_dead

MOST_AT_ONCE = 1_000
"""Messages that one sweep sends: the next sends more."""
_ENOUGH = 10_000
"""Messages that wait at most: each is for any chunk, and to count a million chunks takes a second."""


Failed = Callable[[IndexRun, DragomanError], None]
"""Told of a run whose end failed, by each sweep that tries."""


def log_failed(run: IndexRun, error: DragomanError) -> None:
    """Say in a worker's log that a run's end failed."""
    logger.warning("every chunk is done, and the run's end failed: %s", error, extra={"run": run.id})


def sweep(
    engine: sa.Engine, settings: Settings, hints: Hints, model: str, every: float, failed: Failed = log_failed
) -> list[int]:
    """Look after the runs of a model, unless another worker did a moment ago; returns those that came to their end.

    Done twice at once, or broken off anywhere, it does no harm. A run whose end fails keeps no other from ending.

    Args:
        engine: the ledger's database.
        settings: for stores.
        hints: to the workers.
        model: whose runs.
        every: seconds that are between two sweeps, whichever worker makes them.
        failed: told of each run whose end failed; the next sweep tries again.

    Raises:
        StoreError: database or broker is away.
    """
    if not _is_turn(engine, model, every):
        return []
    forget_the_dead(engine)
    give_out(engine, hints, model)
    with transaction(engine) as session:
        ended = list(session.scalars(sa.select(IndexRun).where(*_GOING, IndexRun.model == model, ~_UNDONE)))
    return [run.id for run in ended if _ends(engine, settings, run, failed)]


def _ends(engine: sa.Engine, settings: Settings, run: IndexRun, failed: Failed) -> bool:
    """Whether a run came to its end."""
    try:
        end(engine, settings, run)
    except DragomanError as error:
        failed(run, error)
        return False
    return True


def give_out(engine: sa.Engine, hints: Hints, model: str) -> None:
    """Let chunks go whose lease is over, and send as many messages as chunks wait for one, up to a number."""
    with transaction(engine) as session:
        # Those that another has just now are left to it or the next sweep: who locks many rows must wait for none.
        over = sa.select(Chunk.run_id, Chunk.number).where(Chunk.state == LEASED, Chunk.until < clock())
        free = sa.tuple_(Chunk.run_id, Chunk.number).in_(over.with_for_update(skip_locked=True))
        let_go = sa.update(Chunk).where(free, Chunk.state == LEASED).values(state=PENDING, error=DIED)
        session.execute(let_go, execution_options={"synchronize_session": False})
    runs = [run.id for run in going(engine, model)]
    with transaction(engine) as session:
        pending = sa.select(Chunk.run_id, Chunk.number).where(Chunk.run_id.in_(runs), IS_PENDING)
        left = session.scalar(sa.select(sa.func.count()).select_from(pending.limit(_ENOUGH).subquery())) or 0
        missing = min(left - hints.waiting(model), MOST_AT_ONCE) if left else 0
        ordered = pending.order_by(Chunk.run_id, Chunk.number).limit(max(missing, 0))
        chunks = [(run, number) for run, number in session.execute(ordered)] if missing > 0 else []
    if chunks:
        hints.send(model, chunks)


def _is_turn(engine: sa.Engine, model: str, every: float) -> bool:
    first = sa.select(sa.func.min(IndexRun.id)).where(*_GOING, IndexRun.model == model).scalar_subquery()
    due = (IndexRun.swept < clock() - every) | (IndexRun.swept > clock())  # the database's clock was put back
    turn = sa.update(IndexRun).where(IndexRun.id == first, due).values(swept=clock())
    with transaction(engine) as session:
        return bool(session.execute(turn, execution_options={"synchronize_session": False}).rowcount)  # type: ignore[attr-defined]


def going(engine: sa.Engine, model: str | None = None) -> list[IndexRun]:
    """Runs that workers are to be at, of one model or all."""
    query = sa.select(IndexRun).where(*_GOING).order_by(IndexRun.id)
    with transaction(engine) as session:
        return list(session.scalars(query if model is None else query.where(IndexRun.model == model)))


def end(engine: sa.Engine, settings: Settings, run: IndexRun) -> None:
    """Every chunk of a run is done: let its documents be seen, and a rebuilt collection take its place.

    Several workers may be at it at once: who comes late finds the run over, and changes nothing.

    Raises:
        StoreError: store or database failed; the same call again goes on.
    """
    found = collections.find(engine, run.collection)
    if found is None:
        return
    ledger = Ledger(engine, run, resumed=True)
    place, owner = found.place(settings), owner_of(engine)
    store = open_store(place, found.name, run.generation, make=False, credentials=settings.credentials, owner=owner)
    try:
        pruned = pruning.prune(ledger, store, Console(quiet=True)) if run.prune else 0
        store.publish()
        if found.building and found.building["number"] == run.generation and store.count():
            generations.switch(engine, found.name, settings)
    finally:
        store.close()
    ledger.finish(pruned)


_GOING = (IndexRun.state == RUNNING, IndexRun.spooled)
_UNDONE = sa.exists().where(Chunk.run_id == IndexRun.id, Chunk.state.in_((PENDING, LEASED)))
"""Looked at in one statement with the run's state: a chunk that goes from hand to hand is in neither for no moment."""
