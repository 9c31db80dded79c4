"""The command ``dragoman``: run in this process, or as a process of its own."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from indexer.collection.settings import Settings
from query.cli import run
from trials import DEMO, ROOT

DRAGOMAN = (sys.executable, "-m", "dragoman")
TOPICS = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
"""Options of a command that takes the demo's topics and judgements."""


class Said(NamedTuple):
    status: int
    sentence: str
    output: str


class TooLongError(BaseException):
    """A command that did not end in time; no handler of errors takes it for an error of the command."""


def ask(arguments: Sequence[str]) -> Said:
    err, out = io.StringIO(), io.StringIO()
    with redirect_stderr(err), redirect_stdout(out):
        status = run(list(arguments))
    return Said(status, err.getvalue(), out.getvalue())


def said(arguments: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process; returns its status and what it said on standard error."""
    return ask(arguments)[:2]


def require_done(arguments: Sequence[str]) -> None:
    status, sentence = said(arguments)
    if status:
        raise RuntimeError(f"{arguments} failed: {sentence}")


_MEASURED = """
import sys
from pathlib import Path
from query.cli import run
status = run(sys.argv[1:])
print(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM:")))
sys.exit(status)
"""
"""A command that prints its peak memory in kB; that of ``getrusage`` begins with the memory of its parent."""


def measured(arguments: Sequence[str]) -> tuple[int, float, str]:
    """Run a command in a process of its own: its status, its peak memory in MB, and what it said on standard error."""
    command, environment = [sys.executable, "-c", _MEASURED, *arguments], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    kilobytes = done.stdout.splitlines()[-1] if done.returncode >= 0 else 0  # below 0: it was killed
    return done.returncode, int(kilobytes) / 1024, done.stderr


@contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """Raise ``TooLongError`` after so many seconds; in the main thread only."""

    def end(*_: object) -> None:
        raise TooLongError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], log: Path | str = os.devnull
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is killed at the end of the block if it still runs; ``log`` has all that it says."""
    with Path(log).open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fell(*what: object, held: bool) -> str:
    """The outcome of a try: empty if it held, else what fell."""
    return "" if held else str(what if len(what) > 1 else what[0])[:600]


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment of a ``dragoman`` that works with a home, store, database and broker."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DRAGOMAN_HOME": str(settings.home),
        "DRAGOMAN_STORE": settings.store,
        "DRAGOMAN_DATABASE": settings.database,
        "DRAGOMAN_BROKER": settings.broker,
    }
