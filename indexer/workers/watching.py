"""Look on while workers index: ``dragoman index`` until its run is over, ``dragoman status --watch``."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.console import Console
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.wording import counted
from indexer.indexing.pipeline import IndexReport, report_of
from indexer.ledger.database import is_away, opened
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import ACTIVE, DONE, PAUSED, READING, RUNNING, IndexRun
from indexer.settings import Settings
from indexer.workers.hints import Hints
from indexer.workers.progress import Rate, RunProgress, is_waiting, is_worked_off, run_progress
from indexer.workers.sweeping import sweep

_REST = 9
_SWEEP = 5.0
"""Seconds between two sweeps, whoever makes them."""


@dataclass(frozen=True)
class RunView:
    """A run at one moment.

    Attributes:
        standing: how far it is.
        rate: documents a second, of all workers.
    """

    standing: RunProgress
    rate: float

    @property
    def left(self) -> dt.timedelta | None:
        """Time until its end at this rate; None where nobody can say."""
        missing = self.standing.documents - self.standing.done
        return dt.timedelta(seconds=round(missing / self.rate)) if self.rate and missing else None


def looks(engine: sa.Engine, run_id: int, every: float, console: Console) -> Iterator[RunView]:
    """A look at a run now and then, until it is over; a database that is away is waited for.

    A run of a million chunks takes a second to look at: then looks are rarer, a tenth of the time at most.
    """
    rate = Rate()
    away = False
    while True:
        began = time.monotonic()
        try:
            found = run_progress(engine, run_id)
            taken = time.monotonic() - began
            away = False
            yield RunView(found, rate(found.done))
            if found.run.state not in ACTIVE:
                return
        except StoreError as error:
            if not is_away(error):
                raise
            if not away:
                console.warn(f"{error}; waiting")
            away, taken = True, 0.0
        time.sleep(max(every, _REST * taken))


def watch_run(run_id: int, name: str, settings: Settings, console: Console, afterwards: str = "") -> IndexReport:
    """Wait for the end of a run that workers are at; returns what it did.

    Args:
        run_id: its number.
        name: of its collection.
        settings: where the ledger is.
        console: where progress goes.
        afterwards: what somebody who does not wait shall do when it is done; calibrate unless given.

    Raises:
        BadInput: it was cancelled.
    """
    started = time.monotonic()
    with opened(settings.database) as engine:
        try:
            run = wait_for(engine, run_id, console, settings)
        except KeyboardInterrupt:
            console.warn(
                f"run {run_id} goes on without this command. Watch it: dragoman status --watch -c {name}; "
                f"dragoman pause, resume or cancel -c {name}; when it is done: "
                + (afterwards or f"dragoman calibrate -c {name}")
            )
            raise
        if run.state != DONE:
            raise BadInput(f"run {run_id} of collection {name} was {run.state}; what is stored stays")
        return report_of(Ledger(engine, run, resumed=False), time.monotonic() - started)


def wait_for(engine: sa.Engine, run_id: int, console: Console, settings: Settings, *, every: float = 1.0) -> IndexRun:
    """Show progress until the run is over; returns it.

    Should the last worker be gone before it ended the run, the run is ended here.
    """
    failures: dict[int, str] = {}

    def failed(one: IndexRun, error: DragomanError) -> None:
        """Every sweep tries again, so a failure is said once until it is another."""
        if failures.get(one.id) != str(error):
            failures[one.id] = str(error)
            console.warn(f"every chunk of run {one.id} is done; its end failed and is tried again: {error}")

    with console.progress("indexing", None, "documents") as progress:
        shown = 0
        said = ""
        following = looks(engine, run_id, every, console)
        while True:
            look = next(following)
            run = look.standing.run
            if look.standing.done > shown:
                progress.expect(look.standing.documents)
                progress(look.standing.done - shown)
                shown = look.standing.done
            if run.state not in ACTIVE:
                return run
            if is_worked_off(look.standing):
                with suppress(StoreError):  # or the next look does
                    sweep(engine, settings, Hints(settings.broker), run.model, _SWEEP, failed)
            before, said = said, standstill(look.standing)
            if said and said != before:
                console.say(said)


def standstill(state: RunProgress) -> str:
    """Why a run doesn't go on, and what to do; empty where it does."""
    run = state.run
    if run.state == PAUSED:
        return f"run {run.id} is paused; let it go on: dragoman resume -c {run.collection}"
    if run.state == RUNNING and is_waiting(state):
        return f"no worker of its model is alive; start one: dragoman worker -c {run.collection}"
    return ""


def watch(engine: sa.Engine, run_id: int, every: float, console: Console) -> None:
    """Print how a run stands, every so many seconds until it is over; JSON lines where the console is of JSON."""
    for look in looks(engine, run_id, every, console):
        console.emit(as_json(look))
        for line in lines(look):
            console.result(line)


def as_json(look: RunView) -> dict[str, object]:
    """A look as JSON carries it."""
    one = look.standing
    return {
        "run": one.run.id,
        "collection": one.run.collection,
        "state": one.run.state,
        "chunks": one.chunks,
        "documents": one.documents,
        "done": one.done,
        "rate": round(look.rate, 1),
        "seconds_left": look.left.total_seconds() if look.left else None,
        "workers": [
            {
                "worker": worker.id, "device": worker.device, "build": worker.build, "chunk": worker.chunk,
                "documents": worker.documents,
            }
            for worker in one.workers
        ],
        "errors": one.errors,
    }  # fmt: skip


def lines(look: RunView) -> list[str]:
    """A look for people."""
    one = look.standing
    chunks = ", ".join(f"{number:,} {state}" for state, number in one.chunks.items()) or "none left"
    left = f", {look.left} left" if look.left else ""
    if one.run.state == READING:
        return [
            f"run {one.run.id} of {one.run.collection} reading: {counted(one.documents, 'document')} read; should the "
            "command that reads them have ended, give it again: it goes on"
        ]
    head = (
        f"run {one.run.id} of {one.run.collection} {one.run.state}: {one.done:,}/{counted(one.documents, 'document')}"
    )
    told = [f"{head}, {look.rate:,.1f}/s{left}; chunks: {chunks}; {counted(len(one.workers), 'worker')} alive"]
    told += [
        f"  {worker.id} ({worker.device}): {counted(worker.documents, 'document')}"
        + (f", at chunk {worker.chunk}" if worker.chunk is not None else "")
        for worker in one.workers
    ]
    told += [f"  last error: {error}" for error in one.errors]
    return [*told, *([f"  {why}"] if (why := standstill(one)) else [])]
