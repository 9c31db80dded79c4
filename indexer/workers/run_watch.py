"""Watch a run that workers index: its views one after another, and waiting for its end."""

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput, DragomanError, StoreError
from indexer.collection.settings import Settings
from indexer.indexing.pipeline import IndexReport, report_of
from indexer.ledger.database import is_away, open_database
from indexer.ledger.index_runs import RunLedger
from indexer.ledger.tables import ACTIVE, DONE, IndexRun
from indexer.workers.hints import Hints
from indexer.workers.progress import Rate, RunProgress, run_progress, standstill_reason
from indexer.workers.sweeps import sweep

_REST = 9
_VIEW = 1.0
"""Seconds between two views of a run that is waited for."""
_SWEEP = 5.0
"""Seconds between two sweeps, whichever process makes them."""


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
    rate = Rate()
    was_away = False
    while True:
        began = time.monotonic()
        try:
            progress = run_progress(engine, run_id)
            query_seconds = time.monotonic() - began
            was_away = False
            yield RunView(progress, rate(progress.done))
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
            if view.progress.awaits_end:
                with suppress(StoreError):  # the next view sweeps again
                    sweep(engine, settings, Hints(settings.broker), run.model, _SWEEP, warn_of_failed_end, console)
            previous_reason, reason = reason, standstill_reason(view.progress)
            if reason and reason != previous_reason:
                console.say(reason)
