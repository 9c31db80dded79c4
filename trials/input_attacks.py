"""Wrong inputs of every command and option: each is refused by a sentence and a status, and in time.

An attack yields one text for each try: empty if the command held, else what fell.
"""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, chdir
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import click

from indexer.workers import hints
from query.cli import root
from trials import DEMO
from trials.command_attacks import TOPICS, options, said

_WITHIN = 120
"""Seconds in which a command must refuse a wrong input."""
_NUMBERS = ("x", "", "-1", "\u00b2", "0x10", "1,5", "nan", "9" * 5_000)
_CHOICES = ("x", "", "\udcff")
_TEXTS = ("", "\udcff", "\u202e", "x" * 100_000, "-", "=", ",", "../../x", "%", "\n")
_URLS = (
    "ftp://127.0.0.1/x",
    "http://",
    "http://[::1",
    "http://127.0.0.1:99999/x",
    "http://127.0.0.1:x/x",
    "://",
    "x:y:z",
    "http://127.0.0.1:1/x",
    "postgresql://127.0.0.1:1/x",
    "sqlite:////dev/null/x/y",
    "redis://127.0.0.1:1",
    "amqp://127.0.0.1:1",
    "redis://127.0.0.1:x",
    "http://127.0.0.1:1/X Y",
    "file:///dev/null/x",
    "https://u:p@127.0.0.1:1/x?vectors=x",
)
_URL_OPTIONS = frozenset({"--store", "--database", "--broker", "--elastic"})
_OUTPUTS = frozenset({"-o", "--output", "--run-file", "--plot"})
_READ = frozenset({
    "sources", "a", "b", "model", "run_ids", "run_id", "name", "--encoder", "--topics", "--qrels",
    "--queries", "--map", "--tokens", "--gold-file", "--wikipedia", "--europarl", "--dictionary",
    "--mldoc", "--documents", "--checkpoint", "--wmt16", "--wmt19", "--pairs", "--jrc",
    "--tatoeba", "--validation", "--home", "--compare",
})  # fmt: skip
"""Options and arguments that name files, folders or things that are looked up."""
_EVERYWHERE = frozenset({"--home", "--store", "--database", "--broker"})
_TRIED_EVERYWHERE = frozenset({"status", "index", "search"})
"""Commands that try the options which every command shares."""


class _TooLongError(BaseException):
    """A command that did not end in time; no handler of errors takes it for an error of the command."""


class WrongInputs:
    """Commands that would work, and what is given in place of one of their inputs.

    Args:
        home: with the collection ``demo`` and a logged evaluation.
        model: an encoder's folder.
        folder: an empty folder.
        port: at which somebody else listens, so that no service starts.
    """

    def __init__(self, home: Path, model: Path, folder: Path, port: int) -> None:
        self._folder = folder
        source, out = str(DEMO / "docs.en.jsonl"), str(folder / "out")
        few = folder / "few.jsonl"
        few.write_text("".join((DEMO / "docs.en.jsonl").read_text("utf-8").splitlines(keepends=True)[:5]), "utf-8")
        encoder = ["--encoder", str(model)]
        at = ["--home", str(home), "-q"]
        missing = str(folder / "missing")
        self.commands: dict[str, list[str]] = {
            "index": [str(few), "-c", "new", *encoder, "--device", "cpu", "--no-calibration", *at],
            "worker": ["--broker", "redis://127.0.0.1:1", *at],
            "pause": ["-c", "demo", *at],
            "resume": ["-c", "demo", "--broker", "redis://127.0.0.1:1", *at],
            "cancel": ["-c", "demo", *at],
            "attach": ["x", "-c", "x", "--text", "t", "--lang", "en", "--store", "http://127.0.0.1:1", *encoder, *at],
            "detach": ["-c", "demo", *at],
            "search": ["coffee", "-c", "demo", "--lang", "en", *at],
            "serve": ["--port", str(port), "--home", str(folder / "empty"), "-q"],  # nothing is opened before it ends
            "calibrate": ["-c", "demo", *at],
            "evaluate": ["-c", "demo", *TOPICS, "--langs", "de", *at],
            "queries": ["-c", "demo", *at],
            "report": ["-c", "demo", "-o", out, *at],
            "align": [str(few), str(few), *encoder, *at],
            "mates": ["-c", "demo", "--languages", "de,en", "--splits", "1", "--methods", "raw", *at],
            "migrate": ["-c", "demo", *encoder, "--dry-run", *at],
            "runs compare": ["1", "1", *at],
            "runs export": ["1", *at],
            "runs list": at,
            "runs show": ["1", *at],
            "status": at,
            "rollback": ["-c", "demo", *at],
            "delete": ["none", "-c", "demo", *at],
            "encoders list": ["-q"],
            "encoders show": [str(model), "-q"],
            "export": ["none/such", "-o", out, "-q"],
            "train cr5": [str(few), source, "-o", out, "-q"],
            "train lawdr": [str(few), "-o", out, *encoder, "-q"],
            "train mapping": ["-c", "demo", "-o", out, *at],
            "train hmde": [missing, "-o", out, "-q"],
            "train tlaser": [missing, "-o", out, "-q"],
            "reproduce cr5": ["--wikipedia", missing, "-q"],
            "reproduce hmde-clef": ["--documents", missing, "--qrels", missing, "--topics", missing, "-q"],
            "reproduce hmde-mldoc": ["--mldoc", missing, "-q"],
            "reproduce lawdr": ["--wmt16", missing, "-q"],
            "reproduce mappings": ["--jrc", missing, "-q"],
            "reproduce tlaser": [*encoder, "--mldoc", missing, "-q"],
            "db upgrade": at,
        }

    def _values(self, name: str, parameter: click.Parameter) -> Iterator[str]:
        """Wrong values of a parameter."""
        if isinstance(parameter.type, click.Choice):
            yield from _CHOICES
        elif isinstance(parameter.type, (click.types.IntParamType, click.types.FloatParamType)):
            yield from _NUMBERS
        elif name in _URL_OPTIONS:
            yield from _URLS
        elif not isinstance(parameter.type, click.types.BoolParamType):
            yield from _TEXTS
            if name in _READ | _OUTPUTS:
                yield from self._files()

    def _files(self) -> list[str]:
        """Files and folders that are not what is asked for."""
        place = self._folder / "files"
        if not place.exists():
            place.mkdir()
            (place / "folder").mkdir()
            (place / "empty").touch()
            for suffix in ("", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".tsv", ".xml", ".html", ".zip", ".sgml"):
                (place / f"garbage{suffix}").write_bytes(bytes(range(255, -1, -1)) * 20)
            (place / "model").mkdir()
            (place / "model" / "config.json").write_bytes(b"[]")
        return [
            str(place / "missing"),
            str(place / "empty" / "inner"),
            str(place / ("n" * 300)),
            *map(str, sorted(place.iterdir())),
        ]

    def tries(self, command: str, *, step: int = 1) -> list[str]:
        """Give a command each ``step``-th wrong input; inputs that are right after all are no tries."""
        inputs = [
            (name, parameter, value)
            for of_command, name, parameter in self._parameters()
            if of_command == command
            for value in self._values(name, parameter)
        ]
        with patch.object(hints, "_CONNECT_RETRIES", 0):
            outcomes = [self._tried(command, *wrong) for wrong in inputs[step // 2 :: step]]
        return [outcome for outcome in outcomes if outcome is not None]

    def _parameters(self) -> Iterator[tuple[str, str, click.Parameter]]:
        for typed, parameter in options(root):
            name = parameter.opts[0] if parameter.param_type_name == "argument" else parameter.opts[-1]
            command = typed.removesuffix(" " + " ".join(parameter.opts))
            if command in self.commands and (name not in _EVERYWHERE or command in _TRIED_EVERYWHERE):
                yield command, name, parameter

    def _tried(self, command: str, name: str, parameter: click.Parameter, value: str) -> str | None:
        """Run a command with a value in place of a right value; None if it is taken."""
        arguments = list(self.commands[command])
        if parameter.param_type_name == "argument":
            arguments[0] = value
            if value.startswith("-"):
                return None  # an option
        else:
            arguments += [name, value]
        begun = time.monotonic()
        try:
            with chdir(self._folder), _bounded():
                status, sentence = said([*command.split(), *arguments])
        except _TooLongError:
            return f"{command} {name} {value[:60]!r}: no end after {time.monotonic() - begun:.0f} s"
        except BaseException as error:  # noqa: BLE001 - it is what fell
            return f"{command} {name} {value[:60]!r}: {error!r:.300}"
        finally:
            self._clean()
        lines = sentence.strip().splitlines()
        if status == 0:
            return None if "Traceback" not in sentence else f"{command} {name} {value[:60]!r}: {sentence[-300:]}"
        held = status in {1, 2} and lines[-1].startswith("Error: ") and "Traceback" not in sentence
        held = held and len(lines[-1]) < 2_000
        return "" if held else f"{command} {name} {value[:60]!r}: {status}, {sentence[-300:]}"

    def _clean(self) -> None:
        for made in (self._folder / "out",):
            if made.is_dir():
                shutil.rmtree(made)
            made.unlink(missing_ok=True)


class _bounded:  # noqa: N801 - used as a function
    """Raise ``_TooLongError`` after a time; only the main thread can be bounded."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._end)
        signal.alarm(_WITHIN)

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self._before)

    @staticmethod
    def _end(*_: object) -> None:
        raise _TooLongError


def wrong_inputs(home: Path, model: Path, folder: Path, *, step: int = 1) -> Iterator[str]:
    """Give each ``step``-th wrong input of every command; the rest is as in ``WrongInputs``.

    A process ends after four commands, and the memory of their encoders with it.
    """
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        processes = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=4)
        stack.enter_context(processes)
        inputs = WrongInputs(home, model, folder, listening.getsockname()[1])
        for command in inputs.commands:
            try:
                yield from processes.submit(inputs.tries, command, step=step).result()
            except BrokenProcessPool:
                yield f"{command}: its process ended"
                return
