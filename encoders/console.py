"""Output of every command at the terminal: results, remarks, tables, progress."""

import datetime as dt
import itertools
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from encoders.printable import fitted, json_line, one_line, printable
from encoders.table_layout import Table, draw


class Note(str):
    """A remark of a result, for people; not shown to the quiet."""

    __slots__ = ()


class Alert(str):
    """A warning of a result, for people; shown even to the quiet."""

    __slots__ = ()


Part = str | Table
"""A part of a result that people see: a line or several, ``Note``, ``Alert`` or a table."""


@dataclass
class Console:
    """Output of a command: results on stdout, everything else on stderr.

    Attributes:
        json: whether results are JSON; then stdout has nothing else.
        quiet: whether progress and remarks are left out.
    """

    json: bool = False
    quiet: bool = False

    def say(self, sentence: str) -> None:
        """Write a remark for people to stderr; nothing if quiet."""
        if not self.quiet:
            click.echo(fitted(one_line(sentence), sys.stderr.isatty()), err=True)

    def warn(self, sentence: str) -> None:
        """Write a warning to stderr, even if quiet."""
        click.echo(fitted(f"warning: {one_line(sentence)}", sys.stderr.isatty()), err=True)

    def warn_once(self, sentence: str) -> None:
        """Write a warning to stderr, but only the first time in this process."""
        if sentence not in _warned:
            _warned.add(sentence)
            self.warn(sentence)

    def show(self, values: Any, parts: str | Iterable[Part] = ()) -> None:
        """Show a result: its values as a line of JSON on a JSON console, else its parts on stdout.

        Args:
            values: what JSON can be made of (``encoders.printable``).
            parts: what people see, or one line of it; notes and alerts go to stderr, on a JSON console, too.
        """
        if self.json:
            click.echo(json_line(values))
        self.print(parts)

    def print(self, parts: str | Iterable[Part]) -> None:
        """Show what has no values in JSON: parts of a result, or a line."""
        for part in [parts] if isinstance(parts, str) else parts:
            if isinstance(part, Note):
                self.say(part)
            elif isinstance(part, Alert):
                self.warn(part)
            elif self.json:
                continue
            elif isinstance(part, Table):
                self._draw(part)
            else:
                click.echo(fitted(printable(part), sys.stdout.isatty()))

    def _draw(self, table: Table) -> None:
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else 160
        if table.headings and (left_out := draw(table, sys.stdout, width, colours=terminal)):
            self.say(f"a wider terminal also shows: {', '.join(left_out)}")

    @contextmanager
    def if_slow(self, sentence: str, *, after: float = 1.0) -> Iterator[None]:
        """Say a sentence if the block takes longer than ``after`` seconds: for work without countable steps."""
        timer = threading.Timer(after, self.say, [sentence])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def waiting(self, activity: str) -> Iterator[None]:
        """Show at a terminal what a block without countable steps does, with a sign that turns, until it is done.

        Nothing is shown of a block that takes less than half a second; the block must write nothing to the terminal.
        """
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        done = threading.Event()
        sign = threading.Thread(target=_turn_sign, args=(activity, done), name="sign", daemon=True)
        sign.start()
        try:
            yield
        finally:
            done.set()
            sign.join()

    @contextmanager
    def if_interrupted(self, sentence: str) -> Iterator[None]:
        """Warn with a sentence if the user interrupts the block; the interruption goes on."""
        try:
            yield
        except KeyboardInterrupt:
            self.warn(sentence)
            raise

    @contextmanager
    def progress(self, description: str, total: int | None, unit: str) -> "Iterator[Progress]":
        """Show a progress bar with rate and time left on stderr; yield the object that advances it.

        Without a terminal, lines at intervals replace the bar, so that a log shows the progress.
        """
        if self.quiet:
            yield Progress()
        elif sys.stderr.isatty():
            with _terminal_bar(description, total, unit) as progress:
                yield progress
        else:
            yield _Lines(description, total, unit)


QUIET = Console(quiet=True)
_warned: set[str] = set()


def _turn_sign(activity: str, done: threading.Event) -> None:
    """Write an activity with a turning sign to the terminal until it is done, then clear the line."""
    if done.wait(_SIGN_AFTER):
        return
    for sign in itertools.cycle("|/-\\"):
        sys.stderr.write(f"\r{sign} {activity} …")
        sys.stderr.flush()
        if done.wait(_SIGN_SECONDS):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


_SIGN_AFTER, _SIGN_SECONDS = 0.5, 0.1
"""Seconds until a sign is shown, and between two of its turns."""


def values_of(report: object, *names: str) -> dict[str, Any]:
    """Fields of a report by name, for ``Console.show``."""
    return {name: getattr(report, name) for name in names}


class Progress:
    """Progress of a job; this base class shows nothing."""

    def __call__(self, steps: int) -> None:
        """Advance by a number of steps."""

    def expect(self, total: int) -> None:
        """Set the total number of steps, for a total that is known only during the job."""


class _Lines(Progress):
    """A line on stderr at each tenth of a known total, and at the latest after ten seconds."""

    def __init__(self, description: str, total: int | None, unit: str) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done = 0
        self.start = self.last = time.monotonic()

    def __call__(self, steps: int) -> None:
        done_before, self.done = self.done, self.done + steps
        now = time.monotonic()
        tenth = max(1, self.total // 10) if self.total else None
        if (tenth and self.done // tenth > done_before // tenth) or now - self.last > _LINE_SECONDS:
            self.last = now
            rate = self.done / max(now - self.start, 1e-6)
            of_total = f"/{self.total:,}" if self.total else ""
            time_left = ""
            if self.total and self.done < self.total:
                time_left = f", {dt.timedelta(seconds=round((self.total - self.done) / rate))} left"
            click.echo(f"{self.description}: {self.done:,}{of_total} {self.unit}, {rate:,.1f}/s{time_left}", err=True)

    def expect(self, total: int) -> None:
        self.total = total


_LINE_SECONDS = 10.0
"""Seconds after which progress that goes to no terminal gets another line."""


@contextmanager
def _terminal_bar(description: str, total: int | None, unit: str) -> Iterator[Progress]:
    from rich import console, progress, table, text  # noqa: PLC0415

    class Steps(progress.ProgressColumn):
        def render(self, task: progress.Task) -> text.Text:
            speed = task.completed / task.finished_time if task.finished_time else task.speed
            of_total, rate = "" if task.total is None else f"/{task.total:,.0f}", f" {speed:,.1f}/s" if speed else ""
            return text.Text(f"{task.completed:,.0f}{of_total} {unit}{rate}")

    class Bar(Progress):
        def __call__(self, steps: int) -> None:
            bar.advance(task, steps)

        def expect(self, total: int) -> None:
            bar.update(task, total=total)

    columns = [
        progress.SpinnerColumn("line"),  # it turns before the first step is done
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=None),  # it gives way to the words
        Steps(table.Column(no_wrap=True)),
        progress.TimeRemainingColumn(table_column=table.Column(no_wrap=True)),
    ]
    with progress.Progress(*columns, console=console.Console(file=sys.stderr), speed_estimate_period=60) as bar:
        task = bar.add_task(description, total=total)
        yield Bar()
        if bar.tasks[0].total is None:
            bar.update(task, total=bar.tasks[0].completed)
