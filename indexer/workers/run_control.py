"""Pause, resume and cancel a collection's run by workers."""

import sqlalchemy as sa

from encoders.errors import BadInput
from indexer.collection import collection as collections
from indexer.ledger.database import now, transaction
from indexer.ledger.index_runs import builds, change_state, forget_chunks, runs
from indexer.ledger.tables import ACTIVE, CANCELLED, PAUSED, READING, RUNNING, IndexRun
from indexer.workers.hints import Hints
from indexer.workers.sweeps import send_hints


def last_run(engine: sa.Engine, collection: str) -> IndexRun:
    """The collection's newest run by workers, active or over. Raises BadInput: there is no such collection or run."""
    spooled = [run for run in runs(engine, collection) if run.spooled]
    return spooled[-1] if spooled else active_run(engine, collection)


def active_run(engine: sa.Engine, collection: str) -> IndexRun:
    """The collection's active run (running, paused or being read). Raises BadInput: there is no collection or run."""
    collections.require(engine, collection)
    run = next((run for run in runs(engine, collection) if run.spooled and run.state in ACTIVE), None)
    if run is None:
        raise BadInput(
            f"no run of workers is open for collection {collection}; begin one: dragoman index … -c {collection} "
            "--broker URL"
        )
    return run


def pause(engine: sa.Engine, collection: str) -> IndexRun:
    """Pause the active run: workers finish their chunks and take no more."""
    return _change(engine, collection, RUNNING, PAUSED, "nothing can be paused")


def resume(engine: sa.Engine, collection: str, hints: Hints) -> IndexRun:
    """Resume the active run, and send messages that a broker may have lost. Raises StoreError: the broker is away."""
    run = active_run(engine, collection)
    if run.state == PAUSED:
        run = _change(engine, collection, PAUSED, RUNNING, "nothing can be resumed")
    elif run.state == READING:
        raise BadInput(
            f"the documents of run {run.id} are not all read; give the command that reads them again, it goes on"
        )
    send_hints(engine, hints, run.model)
    return run


def cancel(engine: sa.Engine, collection: str) -> IndexRun:
    """Cancel the active run: workers drop their chunks; stored documents stay."""
    run = active_run(engine, collection)
    with transaction(engine) as session:
        session.execute(sa.select(IndexRun.id).where(IndexRun.id == run.id).with_for_update())  # see leases._lock_run
        is_cancelled = change_state(session, run.id, ACTIVE, CANCELLED)
        row = session.get_one(IndexRun, run.id)
        if not is_cancelled:
            raise BadInput(f"run {run.id} of collection {collection} is {row.state} by now: nothing can be cancelled")
        row.finished, row.builds = now(), builds(session, run.id)
        forget_chunks(session, run.id)
    return row


def _change(engine: sa.Engine, collection: str, before: str, after: str, refusal: str) -> IndexRun:
    run = active_run(engine, collection)
    if run.state != before:
        raise BadInput(f"run {run.id} of collection {collection} is {run.state}: {refusal}")
    with transaction(engine) as session:
        is_changed = change_state(session, run.id, (before,), after)
        row = session.get_one(IndexRun, run.id)
        if not is_changed:
            raise BadInput(f"run {run.id} of collection {collection} is {row.state} by now: {refusal}")
    return row
