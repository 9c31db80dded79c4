"""Wrong inputs of every command and option: each is refused by a sentence and a status, and in time."""

import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, chdir
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import click

from indexer.workers import hints
from query.cli import root
from trials import DEMO
from trials.command import TOPICS, TooLongError, bounded, fell, said
from trials.command_attacks import options

NAMES = ("../../x", "n" * 300, "\udcff", "a\0b", ".hidden", "a/b")  # names that no collection can have
_WITHIN = 120  # seconds in which a command must refuse a wrong input
_NUMBERS = ("x", "", "-1", "\u00b2", "0x10", "1,5", "nan", "9" * 5_000)
_NUMERIC = (click.types.IntParamType, click.types.FloatParamType)
_CHOICES = ("x", "", "\udcff")
_TEXTS = ("", "\udcff", "\u202e", "x" * 100_000, "-", "=", ",", "../../x", "%", "\n")
_URLS = (
    *["ftp://127.0.0.1/x", "http://", "http://[::1", "http://127.0.0.1:99999/x", "http://127.0.0.1:x/x", "://"],
    *["http://127.0.0.1:1/x", "postgresql://127.0.0.1:1/x", "sqlite:////dev/null/x/y", "redis://127.0.0.1:1"],
    *["amqp://127.0.0.1:1", "redis://127.0.0.1:x", "file:///dev/null/x", "https://u:p@127.0.0.1:1/x?vectors=x"],
    *["x:y:z", "http://127.0.0.1:1/X Y"],
)
_URL_OPTIONS = frozenset({"--store", "--database", "--broker", "--elastic"})
_OUTPUTS = frozenset({"-o", "--output", "--run-file", "--plot"})
_READ = frozenset({
    "sources", "a", "b", "model", "run_ids", "run_id", "name", "--encoder", "--topics", "--qrels", "--queries", "--map",
    "--tokens", "--gold-file", "--checkpoint", "--validation", "--home", "--compare",
})  # fmt: skip
"""Options and arguments that name files, folders or things that are looked up."""
_EVERYWHERE = frozenset({"--home", "--store", "--database", "--broker"})
_TRIED_EVERYWHERE = frozenset({"status", "index", "search"})  # commands that try the options which every command shares
_ENDLESS = ("serve", "worker")


def every_command(home: Path, model: Path, source: Path, folder: Path, port: int = 1) -> dict[str, list[str]]:
    out, encoder, at = str(folder / "out"), ["--encoder", str(model)], ["--home", str(home), "-q"]
    demo, redis = ["-c", "demo", *at], ["--broker", "redis://127.0.0.1:1"]
    missing, english = str(folder / "missing"), str(DEMO / "docs.en.jsonl")
    fields = ["--text", "t", "--lang", "en", "--store", "http://127.0.0.1:1"]
    return {
        "index": [str(source), "-c", "new", *encoder, "--device", "cpu", "--no-calibration", *at],
        "worker": [*redis, *at],
        "pause": demo,
        "resume": [*redis, *demo],
        "cancel": demo,
        "attach": ["x", "-c", "x", *fields, *encoder, *at],
        "detach": demo,
        "search": ["coffee", "--lang", "en", *demo],
        "serve": ["--port", str(port), "--home", str(folder / "empty"), "-q"],  # nothing is opened before it ends
        "calibrate": demo,
        "evaluate": [*TOPICS, "--langs", "de", *demo],
        "queries": demo,
        "report": ["-o", out, *demo],
        "align": [str(source), str(source), *encoder, *at],
        "mates": ["--languages", "de,en", "--splits", "1", "--methods", "raw", *demo],
        "migrate": [*encoder, "--dry-run", *demo],
        "runs compare": ["1", "1", *at],
        "runs export": ["1", *at],
        "runs list": at,
        "runs show": ["1", *at],
        "status": at,
        "rollback": demo,
        "delete": ["none", *demo],
        "encoders list": ["-q"],
        "encoders show": [str(model), "-q"],
        "export": ["none/such", "-o", out, "-q"],
        "train cr5": [str(source), english, "-o", out, "-q"],
        "train lawdr": [str(source), "-o", out, *encoder, "-q"],
        "train mapping": ["-o", out, *demo],
        "train hmde": [missing, "-o", out, "-q"],
        "train tlaser": [missing, "-o", out, "-q"],
        "db upgrade": at,
    }


def odd_name(name: str, folder: Path) -> Iterator[str]:
    """Give one of ``NAMES`` to every command that takes a collection; nothing may be made in the empty folder."""
    home = folder / "a" / "b" / "home"
    takers = {typed.partition(" -c ")[0] for typed, parameter in options(root) if "--collection" in parameter.opts}
    for command, arguments in every_command(home, folder / "none", DEMO / "docs.en.jsonl", folder).items():
        if command not in takers:
            continue
        try:
            with bounded(_WITHIN):
                status, sentence = said([*command.split(), *arguments, "-c", name])
        except TooLongError as error:
            yield f"{command} -c {name[:20]!r}: {error}"
            continue
        held = status == 1 and "a collection can't be named" in sentence and not list(folder.iterdir())
        yield fell(command, name[:20], status, sentence[-200:], held=held)


class WrongInputs:
    """Commands, and what is given in place of one of their inputs."""

    def __init__(self, home: Path, model: Path, folder: Path, port: int) -> None:
        self._folder, few = folder, folder / "few.jsonl"
        few.write_text("".join((DEMO / "docs.en.jsonl").read_text("utf-8").splitlines(keepends=True)[:5]), "utf-8")
        self.commands = every_command(home, model, few, folder, port)

    def _values(self, name: str, parameter: click.Parameter) -> Iterator[str]:
        if isinstance(parameter.type, click.Choice):
            yield from _CHOICES
        elif isinstance(parameter.type, _NUMERIC):
            yield from _NUMBERS
        elif name in _URL_OPTIONS:
            yield from _URLS
        elif not isinstance(parameter.type, click.types.BoolParamType):
            yield from _TEXTS
            if name in _READ | _OUTPUTS:
                yield from self._files()

    def _files(self) -> list[str]:
        place = self._folder / "files"
        if not place.exists():
            place.mkdir()
            (place / "folder").mkdir()
            (place / "empty").touch()
            for suffix in ("", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".tsv", ".xml", ".html", ".zip", ".sgml"):
                (place / f"garbage{suffix}").write_bytes(bytes(range(255, -1, -1)) * 20)
            (place / "model").mkdir()
            (place / "model" / "config.json").write_bytes(b"[]")
        missing = (place / "missing", place / "empty" / "inner", place / ("n" * 300))
        return [str(path) for path in (*missing, *sorted(place.iterdir()))]

    def tries(self, command: str, *, step: int = 1) -> list[str]:
        """Give a command each ``step``-th wrong input; texts that the command accepts are not counted."""
        inputs = [
            (name, parameter, value)
            for name, parameter in self._parameters(command)
            for value in self._values(name, parameter)
        ]
        with patch.object(hints, "_CONNECT_RETRIES", 0):
            outcomes = [self._tried(command, *wrong) for wrong in inputs[step // 2 :: step]]
        return [outcome for outcome in outcomes if outcome is not None]

    @staticmethod
    def _parameters(command: str) -> Iterator[tuple[str, click.Parameter]]:
        for typed, parameter in options(root):
            name = parameter.opts[0] if parameter.param_type_name == "argument" else parameter.opts[-1]
            of_command = typed.removesuffix(" " + " ".join(parameter.opts)) == command
            if of_command and (name not in _EVERYWHERE or command in _TRIED_EVERYWHERE):
                yield name, parameter

    def _tried(self, command: str, name: str, parameter: click.Parameter, value: str) -> str | None:
        """Run a command with a value in place of a right value; None if the value is a text that is accepted."""
        arguments = list(self.commands[command])
        if parameter.param_type_name == "argument":
            arguments[0] = value
            if value.startswith("-"):
                return None  # an option
        else:
            arguments += [name, value]
        try:
            status, sentence = self._run(command, arguments)
        except BaseException as error:  # noqa: BLE001 - it is what fell
            return f"{command} {name} {value[:60]!r}: {error!r:.300}"
        what, last = f"{command} {name} {value[:60]!r}", (sentence.strip().splitlines() or [""])[-1]
        if status == 0 or (status, last) == self._without_wrong_input(command):
            is_text = not isinstance(parameter.type, (click.Choice, *_NUMERIC)) or value == "-1"
            return None if is_text and "Traceback" not in sentence else f"{what} is accepted: {sentence[-300:]}"
        held = status in {1, 2} and last.startswith("Error: ") and "Traceback" not in sentence and len(last) < 2_000
        return fell(what, status, sentence[-300:], held=held)

    def _run(self, command: str, arguments: list[str]) -> tuple[int, str]:
        try:
            with chdir(self._folder), bounded(_WITHIN):
                return said([*command.split(), *arguments])
        finally:
            shutil.rmtree(self._folder / "out", ignore_errors=True)
            (self._folder / "out").unlink(missing_ok=True)

    @cache  # noqa: B019 - the object lives as long as the attack
    def _without_wrong_input(self, command: str) -> tuple[int, str]:
        """Status and last line of a command as it is; a service or a worker, which does not end, has none."""
        if command in _ENDLESS:
            return 0, ""
        status, sentence = self._run(command, self.commands[command])
        return status, (sentence.strip().splitlines() or [""])[-1]


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
