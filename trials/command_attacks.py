"""Attacks on commands and homes: numbers, archives and damaged files; a process that indexes is killed.

An attack yields one text for each try: empty if the command held, else what fell.
"""

import bz2
import gzip
import lzma
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from encoders import zstd
from indexer.collection.settings import Settings
from indexer.indexing.reading import CHUNK_DOCUMENTS
from query.cli import root
from trials import ROOT
from trials.command import ask, fell, measured
from trials.documents import contents, different, sentences, write_records

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
}
"""Functions that pack bytes, by the suffix of the archive."""
NOT_FINITE = ("nan", "inf", "-inf", "1e999")
SHOWN = (
    ["status", "-c", "demo"],
    ["search", "coffee", "-c", "demo", "--lang", "en"],
    ["runs", "list"],
    ["runs", "show", "1"],
    ["runs", "export", "1"],
    ["calibrate", "-c", "demo", "--list"],
)
"""Commands that show a home with the collection ``demo`` and a logged evaluation."""
_SIGNS = ("failed", "have no vector")  # what ``dragoman status`` shows of a damaged store
_PAGE = 4096
_BOMB = 512 << 20
_BOMB_MEMORY = 256
"""MB that a packed file may take beyond a small plain file: a line of 64 MB is read before it is refused."""
_STEP_WITHIN = 300.0  # seconds in which an index run must make a step


def options(command: click.Command, *names: str) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options(below, *names, name)
    else:
        for parameter in command.params:
            yield " ".join((*names, *parameter.opts)), parameter


NUMBERS: dict[str, Any] = {
    name: parameter.type
    for name, parameter in options(root)
    if isinstance(parameter.type, (click.types.FloatParamType, click.FloatRange))
}
"""The types of the options that take numbers, by the name as typed."""


def not_finite(name: str, value: str) -> str:
    try:
        NUMBERS[name].convert(value, None, None)
    except click.BadParameter:
        return ""
    return f"{name} {value} is taken"


def zeroed_pages(home: Path, file: str, pages: Sequence[int]) -> Iterator[str]:
    """Overwrite one page of a database after the other by zeros; a command shows what it showed, or says what to do."""
    damaged = home / file
    whole, refused = damaged.read_bytes(), 0
    shown = [ask([*command, "-q", "--home", str(home)]).output for command in SHOWN]
    try:
        for page in pages:
            damaged.write_bytes(whole[: page * _PAGE] + bytes(_PAGE) + whole[(page + 1) * _PAGE :])
            for command, expected in zip(SHOWN, shown, strict=True):
                status, sentence, output = ask([*command, "-q", "--home", str(home)])
                refused += status
                whole_or_shown = output == expected or any(sign in output for sign in _SIGNS)
                held = whole_or_shown if status == 0 else status == 1 and sentence.startswith("Error: ")
                yield fell(file, page, command, status, sentence[-200:], output[:200], held=held)
    finally:
        damaged.write_bytes(whole)
    if 0 in pages:
        yield "" if refused else f"{file}: no command noticed any damage"


def modes(home: Path) -> Iterator[str]:
    for path in (home, *sorted(home.rglob("*"))):
        mode = path.stat().st_mode & 0o777
        yield fell(path, f"{mode:o}", held=mode == (0o700 if path.is_dir() else 0o600))


def pages_of(file: Path) -> int:
    return file.stat().st_size // _PAGE


def packed_bombs(folder: Path) -> Iterator[str]:
    """Index archives of a few kB that unpack to 512 MB of blank lines, or of one line; their memory is bounded."""

    def indexed(source: Path) -> tuple[int, float, str]:
        index = ["index", str(source), "-c", "c", "--home", str(folder / source.name.replace(".", "-"))]
        return measured([*index, "--method", "first", "--device", "cpu", "--no-calibration"])

    document = b'{"id": "a", "lang": "en", "text": "a river"}\n'
    (folder / "plain.jsonl").write_bytes(document)
    _, plain, _ = indexed(folder / "plain.jsonl")
    for what, much in (("lines", (b" " * 4095 + b"\n") * (_BOMB >> 12)), ("one line", b"x" * _BOMB + b"\n")):
        for suffix, pack in PACKERS.items():
            bomb = folder / f"bomb.jsonl.{suffix}"
            bomb.write_bytes(pack(document + much))
            status, memory, output = indexed(bomb)
            held = status == 0 and memory < plain + _BOMB_MEMORY and ("64 MB" in output) == (what == "one line")
            yield fell(what, suffix, status, f"{memory:.0f} MB, plain {plain:.0f} MB", output, held=held)


_SLOWED = """
import os, sys, time
from encoders.methods.titled_windows import TitledWindows
from indexer import index_sources as indexing
from indexer.collection import encoder as of_collection
from query.cli import run
from trials.fake_encoder import FakeEncoder

kind = {"a stub": FakeEncoder, "the default encoder": TitledWindows}[sys.argv[1]]
encode = kind.encode_documents

def slowly(encoder, documents):
    time.sleep(0.3 if os.environ["DRAGOMAN_HOME"].endswith("killed") else 0)
    return encode(encoder, documents)

kind.encode_documents = slowly
if kind is FakeEncoder:
    indexing.open_named = of_collection.open_named = lambda *_, **__: FakeEncoder()
sys.exit(run([*sys.argv[2:], "--no-calibration"]))
"""


def chunk_states(home: Path) -> dict[str, int]:
    database = home / "dragoman.db"
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as connection:
        try:
            return dict(connection.execute("SELECT state, count(*) FROM chunks GROUP BY state"))
        except sqlite3.OperationalError:  # the tables were being made when the process was killed
            return {}


def kills_while_indexing(folder: Path, encoder: str, *, seed: int) -> Iterator[str]:
    """Index 20 chunks of real sentences, with ids that come twice, and end the process by SIGKILL and Ctrl-C.

    A try is a kill, and at the end a comparison with an undisturbed run.
    """
    texts = [record["text"] for record in sentences(20 * CHUNK_DOCUMENTS)]
    lines = [
        {"id": f"d{number % 1200}", "lang": "en", "text": str(text).replace("nothing", "no thing")}
        for number, text in enumerate(texts)  # the stub refuses "nothing"
    ]
    source = write_records(lines, folder / "sentences.jsonl")
    command = [sys.executable, "-c", _SLOWED, encoder, "index", source, "-c", "c", "--device", "cpu", "-q"]
    command += ["--on-duplicate", "last"]

    def start(home: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DRAGOMAN_HOME": str(home), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    undisturbed, killed = folder / "undisturbed", folder / "killed"
    if start(undisturbed).wait():
        raise RuntimeError("the undisturbed run failed")
    draw = random.Random(seed)
    process = start(killed)
    try:
        for kill in range(200):
            before, more = chunk_states(killed).get("done", 0), draw.randint(2, 6)
            deadline = time.monotonic() + _STEP_WITHIN
            while process.poll() is None and chunk_states(killed).get("done", 0) < before + more:
                if time.monotonic() > deadline:
                    yield "neither more chunks nor an end"
                    return
                time.sleep(0.01)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL if kill % 3 else signal.SIGINT)
            process.wait()
            states = chunk_states(killed)
            if process.returncode == 0:
                break
            if states.get("done") and states.get("pending"):
                yield ""  # it was ended in the midst
            process = start(killed)
        yield "" if process.returncode == 0 else f"status {process.returncode} at the end"
    finally:
        process.kill()
        process.wait()
    whole, disturbed = (contents(Settings.read(home=home), "c") for home in (undisturbed, killed))
    wrong, last = different(whole, disturbed), whole.get("d0", ("",))[0]
    right = not wrong and len(whole) == 1200 and last == lines[1200]["text"]
    yield fell(f"{len(wrong)} of {len(whole)} documents differ", wrong[:3], held=right)
