"""Texts of others in logs and at a terminal: a control character must not begin a line or change what is shown."""

import datetime as dt
import json
import logging
import re
import shutil
import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Controls of terminals, ends of lines, directions of writing that hide what stands there, and halves of characters."""
HALF_CHARACTER = "has half of a surrogate pair, which is no character; leave it out"
_IN_LINE = re.compile(f"[{_CONTROL}]")
_IN_LINES = re.compile(f"(?![\\n\\t])[{_CONTROL}]")


def printable(text: str) -> str:
    """A text whose control characters are escaped; ends of lines and tabs stay."""
    return _IN_LINES.sub(_escaped, text)


def one_line(text: str) -> str:
    """A text as one line: control characters are escaped, ends of lines and tabs, too."""
    return _IN_LINE.sub(_escaped, text)


def json_line(value: Any) -> str:
    """A value as a line of JSON: a dataclass as its ``as_json`` or its fields, a time in ISO format, to the second."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_as_json)
    return _IN_LINE.sub(lambda character: f"\\u{ord(character.group()):04x}", line)


def _as_json(value: Any) -> Any:
    if hasattr(value, "as_json"):
        return value.as_json()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, Path):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else list(value)


def lines_of(text: str, columns: int) -> list[str]:
    """A text in lines of at most so many terminal columns, broken at spaces; a longer word has a line of its own.

    No line ends with the dot between two documents.
    """
    lines: list[str] = []
    for word in re.split(r"(?<!·)\s+", text.strip()):
        if lines and cells(lines[-1]) + 1 + cells(word) <= columns:
            lines[-1] += f" {word}"
        elif word:
            lines.append(word)
    return lines


def cells(text: str) -> int:
    """Width of a text in terminal columns; a Chinese or Japanese character takes two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def fitted(text: str, terminal: bool) -> str:
    """A text for a terminal, whose lines that are too long for it are broken at spaces; else the text itself."""
    columns = shutil.get_terminal_size().columns if terminal else 0
    fitting: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        broken = terminal and cells(line) > columns
        fitting += [indent + part for part in lines_of(line, columns - len(indent))] if broken else [line]
    return "\n".join(fitting)


class LineFormatter(logging.Formatter):
    """Formats an event of a log as one line, with a traceback indented below it; control characters are escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, D102 - as logging has it
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802, D102 - as logging has it
        return printable(f"  {super().formatException(ei)}".replace("\n", "\n  "))


def _escaped(character: re.Match[str]) -> str:
    return character.group().encode("unicode_escape").decode()


def has_surrogate(value: Any) -> bool:
    """Whether text in a JSON value has half of a surrogate pair, which is no character and can't be encoded."""
    waiting = [value]  # no recursion: a value may be nested deeply
    while waiting:
        item = waiting.pop()
        if isinstance(item, str) and re.search("[\ud800-\udfff]", item):
            return True
        if isinstance(item, Mapping):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
    return False
