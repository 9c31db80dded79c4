"""JSON lines: one object per line, UTF-8 unless the options name another encoding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NoReturn

from indexer.readers.files import LONG_LINE, SourceFile
from indexer.readers.record import make_document
from indexer.readers.source import Reading, ReadOptions, Refusal

_MAX_BRACKETS = 1_000_000
"""Maximum ``[`` and ``{`` of a line: each may become a list or an object, which takes thirty times its bytes."""
_WHOLE_FILE = (b"[", b"{", b"[{")


def read_jsonl(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each line that is not blank."""
    for line in file.lines_or_none():
        place = file.at(file.line)
        if line is None:
            yield Refusal(place, LONG_LINE)
        elif line.strip() in _WHOLE_FILE and file.line == 1:
            yield Refusal(place, "it is one JSON value over several lines; write one object a line, as jq -c does")
            return
        elif len(line) > _MAX_BRACKETS and line.count(b"[") + line.count(b"{") > _MAX_BRACKETS:
            yield Refusal(place, f"it has more than {_MAX_BRACKETS:,} brackets; leave out what is no title or text")
        elif line.strip():
            yield _read_line(line, place, options)


def _read_line(line: bytes, place: str, options: ReadOptions) -> Reading:
    encoding = options.encoding or "utf-8"
    try:
        record = json.loads(line.decode(encoding), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        problem = "binary, not a line of JSON" if b"\0" in line else f"not {encoding} (byte {error.start + 1})"
        return Refusal(place, f"it is {problem}; convert the file, or say --encoding")
    except json.JSONDecodeError as error:
        return Refusal(place, f"it is not valid JSON: {error.msg} (character {error.pos + 1})")
    except (ValueError, RecursionError) as error:
        return Refusal(place, f"it is not valid JSON: {error}")
    if not isinstance(record, dict):
        return Refusal(place, f"it is a JSON {type(record).__name__}; write one object with id and text a line")
    return make_document(record, place, options)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
