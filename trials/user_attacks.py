"""Commands of an ordinary user who has no right to a folder or a file: they work, or say it in a sentence."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from encoders.folder.model_cache import model_cache
from encoders.folder.model_folder import graph_files
from trials import DEMO, ROOT
from trials.command import TOPICS, fell
from trials.command_attacks import SHOWN

_WITHIN = 600  # seconds in which the commands of a situation must end
_COMMANDS = """
import json, sys, traceback
from trials.command import said
outcomes = []
for command in json.loads(sys.argv[1]):
    try:
        outcomes.append(said(command))
    except BaseException:
        outcomes.append((-1, traceback.format_exc()))
print(json.dumps(outcomes))
"""
_AS_ORDINARY_USER = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
"""Prefix that drops the superuser's rights to files; empty for other users."""


class Situation(NamedTuple):
    """Modes of files and folders, and commands that run into them."""

    what: str
    modes: Mapping[Path, int]
    commands: Sequence[Sequence[str]]
    held: Literal["refused", "done", "either"] = "either"
    environment: Mapping[str, str | None] = {}

    def tries(self) -> Iterator[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        before = {path: path.stat().st_mode for path in self.modes}
        try:
            for path, mode in self.modes.items():
                path.chmod(mode)
            answered = subprocess.run(
                [*_AS_ORDINARY_USER, sys.executable, "-c", _COMMANDS, json.dumps(self.commands)],
                env={name: value for name, value in environment.items() if value is not None},
                cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_WITHIN, check=False,
            )  # fmt: skip
        finally:
            for path, mode in reversed(before.items()):
                if path.exists():  # a command may delete what it can't read
                    path.chmod(mode)
        beside, outcomes = answered.stderr.strip(), json.loads((answered.stdout.splitlines() or ["[]"])[-1])
        wrong = answered.returncode or (beside if self.held == "done" else "Traceback" in beside)
        yield fell(self.what, "beside the sentences", beside[-300:], held=not wrong)
        for command, (status, sentence) in zip(self.commands, outcomes, strict=False):
            is_held = "Traceback" not in sentence and self._is_held(status, sentence)
            yield fell(self.what, command, status, sentence[-300:], held=is_held)

    def _is_held(self, status: int, sentence: str) -> bool:
        lines = [line for line in sentence.strip().splitlines() if not line.startswith("warning: ")]
        if status == 0:
            return not lines and self.held != "refused"
        about = any(str(path) in sentence for path in self.modes)
        is_said = bool(lines) and lines[-1].startswith("Error: ")  # a service has logged before
        return is_said and self.held != "done" and (about or (status == 1 and self.held == "either"))


class _Stage:
    """What the situations share: sources, an encoder, a closed folder and copies of a home, in an empty folder."""

    def __init__(self, home: Path, model: Path, folder: Path, port: int) -> None:
        folder.chmod(0o755)
        self.home, self.folder, self.port = home, folder, port
        self.source = Path(shutil.copy(DEMO / "docs.en.jsonl", folder / "source.jsonl"))
        self.encoder = Path(shutil.copytree(model, folder / "encoder"))
        self.closed = folder / "closed"
        self.closed.mkdir()
        self.report = ["report", "-c", "demo", "-o", str(folder / "report.html")]
        self.align = ["align", str(self.source), f"{DEMO}/docs.de.jsonl", "--encoder", str(self.encoder)]
        self.migrate = ["migrate", "-c", "demo", "--encoder", str(self.encoder), "--anyway"]
        self.writes = [
            self.index("new"), self.index("demo"), ["delete", "demo:en:mould", "-c", "demo"],
            ["calibrate", "-c", "demo"], ["delete", "--all", "-y", "-c", "demo"],
            ["evaluate", "-c", "demo", *TOPICS, "--langs", "de"], ["serve", "-c", "demo", "--log", "--port", str(port)],
        ]  # fmt: skip
        elsewhere = ["--text", "text", "--lang", "en", "--store", "http://127.0.0.1:1"]
        # the home has nothing for these
        self.refused_before_writing = [
            self.migrate, ["rollback", "-c", "demo"], ["pause", "-c", "demo"], ["cancel", "-c", "demo"],
            ["attach", "help", "-c", "help", *elsewhere], ["detach", "-c", "demo"],
        ]  # fmt: skip

    def index(self, collection: str, source: Path | None = None) -> list[str]:
        options = ["--encoder", str(self.encoder), "--device", "cpu", "--no-calibration"]
        return ["index", str(source or self.source), "-c", collection, *options]

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(self.home, self.folder / name.replace(" ", "-")))


def _at(home: Path, *commands: Sequence[str]) -> list[list[str]]:
    return [[*command, "--home", str(home), "-q"] for command in commands]


_MATES = ["mates", "-c", "demo", "--languages", "de,en", "--splits", "1"]


def _homes(stage: _Stage) -> Iterator[Situation]:
    reads = [*SHOWN, _MATES, stage.report]
    place, what = stage.copy("read-only"), "a home that can't be written"
    inner = sorted(place.rglob("*"), reverse=True)
    modes = {path: 0o555 if path.is_dir() else 0o444 for path in (*inner, place)}
    yield Situation(f"{what} is read", modes, _at(place, *reads), "done")
    yield Situation(what, modes, _at(place, *stage.writes), "refused")
    yield Situation(f"{what}, and has nothing for a command", modes, _at(place, *stage.refused_before_writing))
    every = [*SHOWN, *stage.writes, *stage.refused_before_writing, ["demo"], ["db", "upgrade"], stage.report]
    missing = stage.closed / "home"
    yield Situation("a home in a folder that can't be written", {stage.closed: 0o555}, _at(missing, *every))
    yield Situation("a home in a folder that can't be seen", {stage.closed: 0}, _at(missing, *every), "refused")
    place = stage.copy("another's")
    yield Situation("a home of another user", {place: 0}, _at(place, *every), "refused")
    for what, name, mode in (
        ("a home whose folder alone can't be written", ".", 0o555),
        ("a database that can't be read", "dragoman.db", 0),
        ("a database that can be read alone", "dragoman.db", 0o444),
        ("a store that can't be looked into", "store", 0),
        ("a store that can't be written", "store", 0o555),
        ("a store's file that can't be read", "store/demo.db", 0),
        ("a store's file that can be read alone", "store/demo.db", 0o444),
    ):
        place = stage.copy(what)
        yield Situation(what, {place / name: mode}, _at(place, *reads, *stage.writes, *stage.refused_before_writing))


def _inputs(stage: _Stage) -> Iterator[Situation]:
    place, source, encoder, align = stage.copy("of inputs"), stage.source, stage.encoder, stage.align
    train = ["train", "cr5", str(source), "-o", str(stage.folder / "cr5"), "-q"]
    index = [[*command, "--home", str(place)] for command in (stage.index("new"), stage.index("demo"))]
    yield Situation("a source that can't be read", {source: 0}, [*index, *_at(place, align), train], "refused")
    sources = stage.folder / "sources"
    sources.mkdir()
    hidden = Path(shutil.copy(source, sources / "hidden.jsonl"))
    shutil.copy(DEMO / "docs.de.jsonl", sources)
    commands = _at(place, stage.index("more", sources))
    yield Situation("a folder of sources with a file that can't be read", {hidden: 0}, commands)
    yield Situation("a folder of sources that can't be looked into", {sources: 0}, commands, "refused")
    topics, qrels = (Path(shutil.copy(DEMO / name, stage.folder)) for name in ("topics.tsv", "qrels.txt"))
    judged = ["--topics", str(topics), "--qrels", str(qrels), "-c", "demo"]
    for unread in (topics, qrels):
        commands = _at(place, ["evaluate", *judged], ["calibrate", *judged])
        yield Situation(f"{unread.name} that can't be read", {unread: 0}, commands, "refused")
    commands = _at(place, [*align, "--gold-file", str(qrels)], ["study", *judged, "-o", str(stage.folder / "study")])
    yield Situation("judgements that can't be read", {qrels: 0}, commands, "refused")
    graph = next(encoder.rglob("*.onnx"))
    for unread in (encoder, encoder / "config.json", *graph_files(graph)):
        commands = [*_at(place, stage.index("new"), stage.migrate, align), ["encoders", "show", str(encoder), "-q"]]
        yield Situation(f"{unread.name} of a model that can't be read", {unread: 0}, commands)
    tokens = stage.folder / "tokens"
    tokens.write_text("me a-token-of-thirty-two-characters\n")
    commands = _at(place, ["serve", "--tokens", str(tokens), "--port", str(stage.port)])
    yield Situation("a file of tokens that can't be read", {tokens: 0}, commands, "refused")


def _outputs(stage: _Stage) -> Iterator[Situation]:
    place, closed = stage.copy("of outputs"), stage.closed
    commands = _at(
        place,
        ["report", "-c", "demo", "-o", f"{closed}/report.html"],
        ["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "--run-file", f"{closed}/run"],
        [*stage.align, "-o", f"{closed}/pairs"],
        [*_MATES, "--plot", f"{closed}/mates.png"],
        ["train", "mapping", "-c", "demo", "-o", f"{closed}/maps"],
    )
    commands += [
        ["train", "cr5", f"{DEMO}/docs.en.jsonl", f"{DEMO}/docs.de.jsonl", "-o", f"{closed}/cr5", "-q"],
        ["train", "lawdr", str(stage.source), "--encoder", str(stage.encoder), "-o", f"{closed}/lawdr", "-q"],
    ]
    for mode in (0, 0o555):
        yield Situation(f"an output folder of mode {mode:o}", {closed: mode}, commands, "refused")


def _environments(stage: _Stage) -> Iterator[Situation]:
    place, closed = stage.copy("of environments"), stage.closed
    search = ["search", "coffee", "-c", "demo", "--lang", "en"]
    usual = _at(place, ["status"], search, stage.index("demo"), stage.report, stage.align)
    usual.append(["encoders", "list", "-q"])
    with_models = {"DRAGOMAN_CACHE": str(model_cache().parent)}
    for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR"):
        for mode in (0, 0o555):
            variables = {**with_models, name: str(closed)}
            yield Situation(f"{name} of mode {mode:o}", {closed: mode}, usual, "done", variables)
    yield Situation("no HOME", {}, usual, "done", {**with_models, "HOME": None, "XDG_CACHE_HOME": None})
    commands = [*usual, *_at(place, ["index", str(stage.source), "-c", "other"]), ["export", "none/such", "-q"]]
    variables = {"DRAGOMAN_CACHE": str(closed)}
    for mode in (0, 0o555):
        yield Situation(f"a cache of mode {mode:o}", {closed: mode}, commands, environment=variables)


def without_rights(home: Path, model: Path, folder: Path, *, only: str = "") -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # so no service starts there
        stage = _Stage(home, model, folder, listening.getsockname()[1])
        for situations in (_homes, _inputs, _outputs, _environments):
            for situation in situations(stage):
                if situation.what.startswith(only):
                    yield from situation.tries()
