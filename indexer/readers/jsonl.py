"""JSON lines, one object per line, and a JSON array of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from indexer.readers.records.files import LONG_LINE, RECORD_LIMIT, SourceFile
from indexer.readers.records.record import id_remark, lacks_id, make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

_MAX_BRACKETS = 1_000_000
"""Maximum ``[`` and ``{`` of a record: each may become a list or an object, which takes thirty times its bytes."""
_WHOLE_FILE = b"{"
_CHUNK = 64 << 10
_STRUCTURE = re.compile(rb'[\[\]{},"]')
_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
"""Change of the depth by a bracket."""
_IN_STRING = re.compile(rb'["\\]')


class _ArrayError(Exception):
    """The file is no complete array; the message says why, without the file's name."""


class _InvalidRecordError(Exception):
    """The reason why bytes give no record."""


def read_jsonl(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each line that is not blank, or for each element of a file that is an array.

    An id is by default the file's name and the line, or the number in the array.
    """
    if file.start.lstrip().startswith(b"["):
        yield from _read_array(file, options)
    else:
        yield from _read_lines(file, options)


def _read_lines(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    made_ids = False
    for line in file.lines_or_none():
        place = file.at(file.line)
        if line is None:
            yield Refusal(place, LONG_LINE)
        elif line.strip() == _WHOLE_FILE and file.line == 1:
            yield Refusal(place, "it is one JSON object over several lines; write one object a line, as jq -c does")
            return
        elif line.strip():
            made_id, reading = _read_record(line, place, file.record_id(file.line), options)
            made_ids |= made_id
            yield reading
    if made_ids:
        yield Remark(file.shown, id_remark("FILE:LINE"))


def _read_array(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    made_ids = False
    try:
        for number, element in enumerate(_elements(file), start=1):
            place = f"{file.shown}#{number}"
            if element is None:
                yield Refusal(place, f"the record has more than {RECORD_LIMIT >> 20} MB; split it")
            else:
                made_id, reading = _read_record(element, place, f"{file.name}#{number}", options)
                made_ids |= made_id
                yield reading
    except _ArrayError as error:
        yield Refusal(file.shown, str(error))
    if made_ids:
        yield Remark(file.shown, id_remark("FILE#NUMBER"))


def _read_record(data: bytes, place: str, record_id: str, options: ReadOptions) -> tuple[bool, Reading]:
    """Whether the record lacks an id, and its document or refusal; ``record_id`` is the id of a record without one."""
    try:
        record = _record(data)
    except _InvalidRecordError as error:
        return False, Refusal(place, str(error))
    lacking = lacks_id(record, options)
    return lacking, make_document({**record, "id": record_id} if lacking else record, place, options)


def _record(data: bytes) -> dict[str, Any]:
    """The JSON object of a line or an element."""
    if len(data) > _MAX_BRACKETS and data.count(b"[") + data.count(b"{") > _MAX_BRACKETS:
        raise _InvalidRecordError(f"it has more than {_MAX_BRACKETS:,} brackets; leave out what is no title or text")
    try:
        record = json.loads(data.decode("utf-8", "replace"), parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise _InvalidRecordError(f"it is not valid JSON: {error.msg} (character {error.pos + 1})") from error
    except (ValueError, RecursionError) as error:
        raise _InvalidRecordError(f"it is not valid JSON: {error}") from error
    if not isinstance(record, dict):
        raise _InvalidRecordError(f"it is a JSON {type(record).__name__}; a record is an object with a text")
    return record


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _elements(file: SourceFile) -> Iterator[bytes | None]:
    """Yield the bytes of each element of the array; None for an element longer than ``RECORD_LIMIT``.

    Raises _ArrayError: after the last element,
    the array does not end, or more stands after it; UnreadableFileError: as in ``SourceFile.open``.
    """
    element: bytearray | None = bytearray()
    depth = count = 0
    begun = False
    for part, token in _parts(file):
        if not begun:
            begun, depth = token == b"[", int(token == b"[")
        elif depth == 0:
            if part.strip():
                raise _ArrayError("more stands after the end of its array; write one object a line, as jq -c does")
        else:
            depth += _STEPS.get(token, 0)
            ends = depth == 0 or (depth == 1 and token == b",")
            if element is not None:
                element += part[:-1] if ends else part
                element = None if len(element) > RECORD_LIMIT else element
            if ends:
                if element is None or element.strip():
                    count += 1
                    yield None if element is None else bytes(element)
                element = bytearray()
    if depth:
        raise _ArrayError("its array does not end; what came before is kept; get it again")
    if not count:
        raise _ArrayError("its array is empty")


def _parts(file: SourceFile) -> Iterator[tuple[bytes, bytes]]:
    """Cut a file after each ``[ ] { } ,`` that is not in a string; yield the part and this last character, if any."""
    in_string = escaped = False
    with file.open() as stream:
        while chunk := stream.read1(_CHUNK):
            start = position = 0
            if escaped:
                position, escaped = 1, False
            while match := (_IN_STRING if in_string else _STRUCTURE).search(chunk, position):
                position = match.end()
                token = match[0]
                if token == b"\\":
                    position += 1
                elif token == b'"':
                    in_string = not in_string
                else:
                    yield chunk[start:position], token
                    start = position
            escaped = position > len(chunk)
            if start < len(chunk):
                yield chunk[start:], b""
