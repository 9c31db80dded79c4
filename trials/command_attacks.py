"""Attacks on commands and homes: numbers, archives and damaged files."""

import bz2
import gzip
import lzma
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from encoders import zstd
from query.cli import root
from trials.command import ask, fell, measured

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
    ["status", "-c", "demo", "--calibration"],
)
"""Commands that show a home with the collection ``demo`` and a logged evaluation."""
_SIGNS = ("failed", "have no vector")  # what ``dragoman status`` shows of a damaged store
_PAGE = 4096
_BOMB = 512 << 20
_BOMB_MEMORY = 256
"""MB that a packed file may take beyond a small plain file: a line of 64 MB is read before it is refused."""


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


def chunk_states(home: Path) -> dict[str, int]:
    database = home / "dragoman.db"
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as connection:
        try:
            return dict(connection.execute("SELECT state, count(*) FROM chunks GROUP BY state"))
        except sqlite3.OperationalError:  # the tables were being made when the process was killed
            return {}
