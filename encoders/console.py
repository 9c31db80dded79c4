"""What every command shares at the terminal: common options, progress, tables, one-sentence errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Console:
    """How a command speaks: results to stdout, everything else to stderr.

    Attributes:
        json: results are JSON and nothing else stands on stdout.
        quiet: no progress and no remarks.
    """

    json: bool = False
    quiet: bool = False

    def say(self, sentence: str) -> None:
        """A remark for a person, on stderr; silent when quiet."""
        if not self.quiet:
            click.echo(sentence, err=True)

    def warn(self, sentence: str) -> None:
        """Something the user should know even when quiet, on stderr."""
        click.echo(f"warning: {sentence}", err=True)

    def result(self, text: str) -> None:
        """A line of the result, for people; nothing where the result is JSON."""
        if not self.json:
            click.echo(text)

    def emit(self, value: Any) -> None:
        """A JSON object on a line of stdout, where the result is JSON."""
        if self.json:
            click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
        """A table on stdout (``columns`` starting with ``>`` are right-aligned); nothing where the result is JSON."""
        if self.json:
            return
        from rich import box  # noqa: PLC0415 - a third of a second that --help need not pay
        from rich.console import Console as RichConsole  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415

        terminal = sys.stdout.isatty()
        out = RichConsole(file=sys.stdout, highlight=False, no_color=not terminal, width=None if terminal else 160)
        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
        for column in columns:
            table.add_column(
                column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
            )
        for row in rows:
            table.add_row(*row)
        out.print(table)

    @contextmanager
    def progress(self, description: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """A progress bar on stderr with rate and time left; yields a function that advances it.

        Without a terminal it is one line at the end of each tenth, so that a log shows life.
        """
        if self.quiet:
            yield lambda _: None
        elif sys.stderr.isatty():
            with _terminal_bar(description, total, unit) as advance:
                yield advance
        else:
            yield _line_progress(description, total, unit)


@contextmanager
def _terminal_bar(description: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console as RichConsole  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.1f} {unit}/s" if speed else "")

    count = "{task.completed:,.0f}" + ("/{task.total:,.0f}" if total is not None else "")
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{count} {unit}"),
        Rate(),
        TimeRemainingColumn(),
        console=RichConsole(file=sys.stderr),
        transient=False,
        speed_estimate_period=60,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


def _line_progress(description: str, total: int | None, unit: str) -> Callable[[int], None]:
    done = 0
    step = max(1, total // 10) if total else 1000

    def advance(steps: int) -> None:
        nonlocal done
        before, done = done, done + steps
        if done // step > before // step:
            of = f"/{total:,}" if total else ""
            click.echo(f"{description}: {done:,}{of} {unit}", err=True)

    return advance


def output_options(command: Command) -> Command:
    """Add ``--json``, ``-q/--quiet`` and ``--debug``, which every command has."""
    for option in (
        click.option("--debug", is_flag=True, envvar="DRAGOMAN_DEBUG", help="Show the traceback of an error."),
        click.option("-q", "--quiet", is_flag=True, envvar="DRAGOMAN_QUIET", help="No progress and no remarks."),
        click.option("--json", "as_json", is_flag=True, envvar="DRAGOMAN_JSON", help="Print JSON on stdout, nothing else."),
    ):
        command = option(command)
    return command
