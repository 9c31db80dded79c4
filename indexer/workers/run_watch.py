"""Watch a run that workers index: its progress, its views one after another, and waiting for its end."""

import datetime as dt
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.phrases import counted
from indexer.collection.settings import Settings
from indexer.indexing.pipeline import IndexReport, report_of
from indexer.ledger.database import is_away, open_database, transaction
from indexer.ledger.index_runs import RunLedger
from indexer.ledger.tables import ACTIVE, DONE, LEASED, PAUSED, PENDING, RUNNING, SPLIT, Chunk, IndexRun
from indexer.workers import registry
from indexer.workers.hints import Hints
from indexer.workers.registry import Worker
from indexer.workers.sweeps import sweep

_ERRORS = 5
_WINDOW = 60.0
_REST = 9
_VIEW = 1.0
"""Seconds between two views of a run that is waited for."""
_SWEEP = 5.0
"""Seconds between two sweeps, whichever process makes them."""


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
    if run.state == RUNNING and PENDING in progress.chunks and not progress.workers:
        return f"no worker of its model is alive; start one: dragoman worker -c {run.collection}"
    return ""


def _rate(seen: deque[tuple[float, int]], done: int) -> float:
    """Documents per second over the last minute, of all workers; ``seen`` gets the time and the documents done."""
    now = time.monotonic()
    seen.append((now, done))
    while now - seen[0][0] > _WINDOW:
        seen.popleft()
    since, before = seen[0]
    # 0 at least: a finished run's count leaves out refused documents
    return max(0.0, (done - before) / (now - since)) if now > since else 0.0


@dataclass(frozen=True)
class RunView:
    """A run at one moment: its progress, and the rate of all workers in documents per second."""

    progress: RunProgress
    rate: float

    @property
    def time_left(self) -> dt.timedelta | None:
        """Time until the run ends at this rate; None where the rate is 0 or every document is done."""
        missing = self.progress.documents - self.progress.done
        return dt.timedelta(seconds=round(missing / self.rate)) if self.rate and missing else None


def run_views(engine: sa.Engine, run_id: int, every: float, console: Console) -> Iterator[RunView]:
    """Views of a run, one every ``every`` seconds, until the run is over; waits while the database is away.

    Views of a run of a million chunks, a second each, are rarer: queries take at most a tenth of the time.
    """
    seen: deque[tuple[float, int]] = deque()
    was_away = False
    while True:
        began = time.monotonic()
        try:
            progress = run_progress(engine, run_id)
            query_seconds = time.monotonic() - began
            was_away = False
            yield RunView(progress, _rate(seen, progress.done))
            if progress.run.state not in ACTIVE:
                return
        except StoreError as error:
            if not is_away(error):
                raise
            if not was_away:
                console.warn(f"{error}; waiting")
            was_away, query_seconds = True, 0.0
        time.sleep(max(every, _REST * query_seconds))


def watch_run(ledger: RunLedger, settings: Settings, console: Console, afterwards: str = "") -> IndexReport:
    """Wait until workers have finished a run; returns the run's report. Raises BadInput: the run was cancelled.

    After Ctrl-C, ``afterwards`` advises what to do when the run is done: by default, to calibrate.
    """
    started = time.monotonic()
    run_id, name = ledger.run.id, ledger.run.collection
    advice = (
        f"run {run_id} goes on without this command. Watch it: dragoman status --watch -c {name}; "
        f"dragoman pause, resume or cancel -c {name}; when it is done: "
        + (afterwards or f"dragoman calibrate -c {name}")
    )
    with open_database(settings.database) as engine:
        with console.if_interrupted(advice):
            run = wait_for(engine, run_id, console, settings)
        if run.state != DONE:
            raise BadInput(f"run {run_id} of collection {name} was {run.state}; stored documents stay")
        return report_of(RunLedger(engine, run, resumed=ledger.resumed), time.monotonic() - started)


def wait_for(engine: sa.Engine, run_id: int, console: Console, settings: Settings) -> IndexRun:
    """Show progress until the run is over, and end the run if the last worker stopped before; returns the run."""
    errors_by_run: dict[int, str] = {}

    def warn_of_failed_end(failed_run: IndexRun, error: DragomanError) -> None:
        """Warn of a failed end; every sweep tries again, so the same error of a run is shown once."""
        if errors_by_run.get(failed_run.id) != str(error):
            errors_by_run[failed_run.id] = str(error)
            console.warn(f"every chunk of run {failed_run.id} is done; its end failed and is tried again: {error}")

    with console.progress("indexing", None, "documents") as progress:
        shown_documents = 0
        reason = ""
        views = run_views(engine, run_id, _VIEW, console)
        while True:
            view = next(views)
            run = view.progress.run
            if view.progress.done > shown_documents:
                progress.expect(view.progress.documents)
                progress(view.progress.done - shown_documents)
                shown_documents = view.progress.done
            if run.state not in ACTIVE:
                return run
            if run.state == RUNNING and not view.progress.chunks.keys() & {PENDING, LEASED}:  # its end alone remains
                with suppress(StoreError):  # the next view sweeps again
                    sweep(engine, settings, Hints(settings.broker), run.model, _SWEEP, warn_of_failed_end, console)
            previous_reason, reason = reason, standstill_reason(view.progress)
            if reason and reason != previous_reason:
                console.say(reason)
