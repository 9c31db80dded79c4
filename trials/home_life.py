"""The life of a home, command by command: what trials disturb, what a home has afterwards, and two commands at once."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import sqlalchemy as sa

from encoders.folder.model_folder import ModelFolder
from encoders.maps.space_maps import SpaceMaps
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, reading
from indexer.ledger.index_runs import runs
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import CalibrationRow
from trials import DEMO, ROOT
from trials.documents import different, stored, write_records

_RUNNER = """
import json, os, sys
from query.cli import root, run
import encoders.methods.method_registry, indexer.index_sources, indexer.stores.embedded, onnx_export.cr5_folder
import query.calibration_fitting.calibration_fit, query.migration.document_reencoding, query.migration.query_migration
import elasticsearch.helpers, indexer.stores.attached.companion_index, sqlalchemy.dialects.postgresql.psycopg, psycopg
for name in root.list_commands(None):
    root.get_command(None, name)
for line in sys.stdin:
    child = os.fork()
    if not child:
        with open(sys.argv[1], "a") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        status = run(json.loads(line))
        sys.stdout.flush()
        os._exit(status)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Commands:
    """A process that has everything imported, runs a ``prelude`` in Python, and forks for each command."""

    def __init__(self, log: Path, variables: Mapping[str, str] | None = None, prelude: str = "") -> None:
        self.log = log
        self._process = subprocess.Popen(
            [sys.executable, "-c", prelude + _RUNNER, str(log)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})},
        )  # fmt: skip
        assert self._process.stdin
        assert self._process.stdout
        self._input, self.output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self, command: Sequence[str]) -> int:
        self._input.write(json.dumps(command).encode() + b"\n")
        return int(self.output.readline())

    def status(self) -> int:
        """Wait for the end of the command; returns its exit status."""
        return int(self.output.readline())

    def run(self, command: Sequence[str]) -> int:
        self.start(command)
        return self.status()

    def said(self) -> str:
        """The end of what commands said."""
        return self.log.read_text()[-300:] if self.log.exists() else ""


class Step(NamedTuple):
    """A command in the life of a home; whether the same command completes what a lost power broke off.

    If it does not, nothing of the command is done, or all.
    """

    name: str
    command: list[str]
    goes_on: bool = True


def steps(folder: Path, scratch: Path, commands: Commands, *store: str) -> list[Step]:
    """Commands that follow each other in the home of a folder; their encoders and sources are made in ``scratch``.

    The collection is in the home unless options name another ``store``.
    """
    encoders = [str(scratch / name) for name in ("cr5", "narrow")]
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("ar", "de", "en", "es")]
    train = ["train", "cr5", *sources, "-q", "--dimensions"]
    for encoder, dimensions in zip(encoders, ("20", "10"), strict=True):
        commands.run([*train, dimensions, "-o", encoder])
    records = [json.loads(line) for source in sources for line in Path(source).read_bytes().splitlines()]
    changed = write_records(
        ({**record, "text": record["text"][number % 3 :]} for number, record in enumerate(records[20:])),
        scratch / "changed.jsonl",
    )
    at = ["-c", "c", "--home", str(folder / "home"), "-q"]
    calibrated = ["--device", "cpu", *at]
    index = ["--no-calibration", *calibrated]
    to_narrow = ["migrate", "--encoder", encoders[1], "--device", "cpu", *at]
    model, mapping = str(folder / "models" / "cr5"), str(folder / "models" / "mapping")
    made = [
        Step("first index", ["index", *sources, "--encoder", encoders[0], *index, *store]),
        Step("calibrate", ["calibrate", "--balance", "0.5", "--device", "cpu", *at]),
        Step("index again", ["index", changed, "--prune", *index]),
        Step("delete", ["delete", records[30]["id"], records[70]["id"], *at], goes_on=False),
        Step("migrate", [*to_narrow, "--anyway"], goes_on=False),
        Step("encode again", [*to_narrow, "--re-encode"]),
        Step("roll back", ["rollback", *at], goes_on=False),
        Step("rebuild", ["index", *sources, "--encoder", encoders[1], "--rebuild", *calibrated]),
        Step("train a model", [*train, "20", "-o", model]),
        Step("replace a model", [*train, "10", "-o", model]),
        Step("train a mapping", ["train", "mapping", "-o", mapping, *at]),
        Step("calibrate by maps", ["calibrate", "--map", mapping, *calibrated]),
        Step("delete all", ["delete", "--all", "--yes", *at]),
    ]
    if find_spec("torch"):
        few = [record for record in records if record["lang"] in {"de", "es"} and record["label"] in {"health", "home"}]
        source, model = write_records(few, scratch / "few.jsonl"), str(folder / "models" / "hmde")
        shape = ["--held-out", "0", "--steps", "2", "--batch", "4", "--evaluate", "1", "--segmentation", "sentences"]
        made.append(Step("train hmde", ["train", "hmde", source, "-q", *shape, "-o", model]))
    return made


def check_models(folder: Path) -> None:
    """Read every model of a folder. Raises DragomanError: a file is not as it was written."""
    for model in (folder / "models").glob("[!.]*"):
        if model.name == "mapping":
            SpaceMaps.read(model)
        elif model.suffix != ".training":  # which the same command goes on with
            ModelFolder.open(model).check_files(again=True)


def state(folder: Path, database: str | None = None) -> dict[str, Any]:
    """All that commands are to leave in a folder, but for times; the ``database`` is in the home by default."""
    home, models = folder / "home", folder / "models"
    files = [file for file in models.glob("[!.]*/**/*") if file.is_file()]
    left: dict[str, Any] = {str(file.relative_to(models)): file.read_bytes() for file in files}
    if not (database or (home / "dragoman.db").exists()):
        return left
    settings = Settings.read(home=home, database=database)
    with open_database(settings.database) as engine:
        with reading(engine) as connection:
            for row in connection.execute(sa.select(CalibrationRow.__table__)):
                space = Calibration.from_bytes(row.artifact).space.name
                # without its id: a map learnt twice may differ in a last bit
                key = f"calibration of {row.collection}, model {row.model}, space {space}, active: {row.active}"
                left[key] = left.get(key, 0) + 1
        for collection in collections.all_collections(engine):
            generations = (collection.generation, collection.previous, collection.building)
            last_run = max((run.id for run in runs(engine, collection.name)), default=0)
            complete = collection.checked_run >= last_run
            left[f"collection {collection.name}"] = (collection.encoder, collection.model, *generations, complete)
            with closing(collection.open_store(settings)) as store:
                for model in store.models():
                    items = (item for page in store.scan(model) for item in page)
                    left |= {f"{model} {item.document.doc_id}": stored(item) for item in items}
    return left


_INDEXED = ("first index", "calibrate", "index again", "rebuild")  # a home with a generation to roll back to
_OF_COLLECTION = ("calibrate", "index again", "delete", "encode again", "roll back", "rebuild", "delete all")


class Pairs:
    """Two commands at once on a copy of a home: it ends as if one had run after the other, or without a refused one."""

    def __init__(self, scratch: Path, folder: Path, first: Commands, second: Commands) -> None:
        self._scratch, self._folder, self._first, self._second = scratch, folder, first, second
        by_name = {step.name: step for step in steps(folder, scratch, first)}
        folder.mkdir()
        for name in _INDEXED:
            if first.run(by_name[name].command):
                raise RuntimeError(f"{name} failed: {first.said()}")
        shutil.copytree(folder, scratch / "begin")
        wide, narrow = str(scratch / "cr5"), str(scratch / "narrow")  # the home has the narrow encoder by now
        self.steps = [
            Step(name, [wide if part == narrow else part for part in by_name[name].command]) for name in _OF_COLLECTION
        ]
        self._ends: dict[tuple[str, ...], tuple[tuple[bool, ...], dict[str, Any]]] = {}
        self.seconds = {step.name: self._timed(step) for step in self.steps}

    def _begin(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._scratch / "begin", self._folder)

    def _timed(self, step: Step) -> float:
        self._begin()
        begun = time.monotonic()
        self._first.run(step.command)
        return time.monotonic() - begun

    def _end(self, *order: Step) -> tuple[tuple[bool, ...], dict[str, Any]]:
        """Which of the steps succeed one after the other, and what they leave."""
        names = tuple(step.name for step in order)
        if names not in self._ends:
            self._begin()
            succeeded = tuple(not self._first.run(step.command) for step in order)
            self._ends[names] = succeeded, state(self._folder)
        return self._ends[names]

    def attempt(self, one: Step, other: Step, delay: float) -> str:
        """Start the other step so many seconds after the one; returns what fell, empty if nothing."""
        self._begin()
        self._first.start(one.command)
        time.sleep(delay)
        self._second.start(other.command)
        succeeded = (not self._first.status(), not self._second.status())
        what = f"{one.name} and, {delay:.2f} s later, {other.name}, which ended well: {succeeded}"
        try:
            left = state(self._folder)
        except Exception as error:  # noqa: BLE001 - it is what fell
            return f"{what}: {error!r}"
        done = [step for step, well in zip((one, other), succeeded, strict=True) if well]
        orders = [(self._end(one, other), succeeded), (self._end(other, one), succeeded[::-1])]
        ends = [end for (which, end), same in orders if which == same] + [self._end(*done)[1]] * (len(done) < 2)
        if left in ends:
            return ""
        keys = min((different(end, left) for end in ends), key=len)
        return f"{what}: {len(keys)} differ from the nearest order: {keys[:3]}; {self._second.said()}"


def pairs(folder: Path, tries: int, *, seed: int = 0) -> Iterator[str]:
    """Run each pair of commands in turn, the second after a random delay; yields what fell in each try."""
    scratch, chance = folder / "scratch", random.Random(seed)
    scratch.mkdir()
    with Commands(scratch / "log") as first, Commands(scratch / "log") as second:
        trial = Pairs(scratch, folder / "home-of-two", first, second)
        both = [(one, other) for one in trial.steps for other in trial.steps]
        for number in range(tries):
            one, other = both[number * 5 % len(both)]
            yield trial.attempt(one, other, chance.uniform(0.0, 1.2 * trial.seconds[one.name]))
