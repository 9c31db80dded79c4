"""JSON lines, one object per line, and a JSON array of objects."""

import json
import re
from collections.abc import Iterator
from typing import Any

from indexer.readers.records.files import LONG_LINE, RECORD_LIMIT, SourceFile
from indexer.readers.records.record import RecordNotes, known_names, make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal

_MAX_BRACKETS = 1_000_000
"""Maximum ``[`` and ``{`` of a record: each may become a list or an object, which takes thirty times its bytes."""
_CHUNK = 64 << 10
_STRUCTURE = re.compile(rb'[\[\]{},"]')
_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
"""Change of the depth by a bracket."""
_IN_STRING = re.compile(rb'["\\]')
_NO_JSON = re.compile(r"(?:None|NaT|nan|<NA>|NA|-?inf)\b")
_MAX_MENDED = 20
"""Maximum of these words that are mended in a record; each takes another parse."""
_NO_VALUE = frozenset(("NaN", "NaT", "<NA>"))
"""Strings that programs write for a missing value, and nobody as a word."""


class _ArrayError(Exception):
    """The file is no complete array; the message says why, without the file's name."""


class _InvalidRecordError(Exception):
    """The reason why bytes give no record."""


def read_jsonl(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each line that is not blank, or for each element of a file that is an array.

    An id is by default the file's name and the line, or the number in the array.
    """
    records, is_array = _Records(options), file.start.lstrip().startswith(b"[")
    yield from _read_array(file, records) if is_array else _read_lines(file, records)
    yield from records.notes.remarks(file.shown, "FILE#NUMBER" if is_array else "FILE:LINE")


def _read_lines(file: SourceFile, records: "_Records") -> Iterator[Reading]:
    for line in file.lines_or_none():
        place = file.at(file.line)
        if line is None:
            yield Refusal(place, LONG_LINE)
        elif line.strip() == b"{" and file.line == 1:
            yield Refusal(place, "it is one JSON object over several lines; write one object a line, as jq -c does")
            return
        elif line.strip():
            yield records.read(line, place, file.record_id(file.line))


def _read_array(file: SourceFile, records: "_Records") -> Iterator[Reading]:
    try:
        for number, element in enumerate(_elements(file), start=1):
            place = f"{file.shown}#{number}"
            if element is None:
                yield Refusal(place, f"the record has more than {RECORD_LIMIT >> 20} MB; split it")
            else:
                yield records.read(element, place, f"{file.name}#{number}")
    except _ArrayError as error:
        yield Refusal(file.shown, str(error))


class _Records:
    """Makes documents of a file's records, and notes what they lack."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._decoder = json.JSONDecoder(parse_constant=self._missing)
        self._names: list[str] = []
        self._known: dict[str, str] = {}
        self.notes = RecordNotes()

    def read(self, data: bytes, place: str, record_id: str) -> Reading:
        """The document or the refusal of a line or an element; ``record_id`` is the id of a record without one."""
        try:
            record = self._record(data)
        except _InvalidRecordError as error:
            return Refusal(place, str(error))
        names = [name for name, value in record.items() if value is not None and not isinstance(value, dict)]
        if names != self._names:
            self._names, self._known = names, known_names(names, self._options)
            self.notes.take_id_name(self._known)
        for name, known_name in self._known.items():
            record[known_name] = record.pop(name)
        if "id" not in self._options.fields and record.get("id") is None:
            self.notes.made_ids = True
            record["id"] = record_id
        return make_document(record, place, self._options)

    def _record(self, data: bytes) -> dict[str, Any]:
        """The JSON object of a line or an element, without its missing values."""
        if len(data) > _MAX_BRACKETS and data.count(b"[") + data.count(b"{") > _MAX_BRACKETS:
            raise _InvalidRecordError(
                f"it has more than {_MAX_BRACKETS:,} brackets; leave out what is no title or text"
            )
        try:
            record = self._decoded(data.decode("utf-8", "replace").lstrip("\ufeff"))
        except json.JSONDecodeError as error:
            where = f"(character {error.pos + 1})" if error.pos else "at its beginning; say --format if it is no JSON"
            raise _InvalidRecordError(f"it is not valid JSON: {error.msg} {where}") from error
        except ValueError as error:
            raise _InvalidRecordError("it has a number of thousands of digits; write it as a string") from error
        except RecursionError as error:
            raise _InvalidRecordError("its arrays and objects are nested too deeply; make it flatter") from error
        if not isinstance(record, dict):
            raise _InvalidRecordError(f"it is a JSON {type(record).__name__}; a record is an object with a text")
        for name, value in record.items():
            if isinstance(value, str) and len(value) < 6 and value in _NO_VALUE:
                record[name] = None
                self.notes.missing += 1
        return record

    def _decoded(self, text: str) -> Any:
        """A JSON value; ``None`` and the like are null. Raises ValueError, RecursionError."""
        missing, mended = self.notes.missing, 0
        while True:
            try:
                return self._decoder.decode(text)
            except json.JSONDecodeError as error:
                self.notes.missing = missing
                word = _NO_JSON.match(text, error.pos)
                if word is None or mended == _MAX_MENDED:
                    raise
                text, mended = f"{text[: error.pos]}NaN{text[word.end() :]}", mended + 1

    def _missing(self, _name: str) -> None:
        self.notes.missing += 1


def _elements(file: SourceFile) -> Iterator[bytes | None]:
    """Yield each element's bytes; None if too long. Raises _ArrayError: no whole array; UnreadableFileError."""
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
