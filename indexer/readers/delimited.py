"""CSV and TSV with a header."""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from encoders.document import Document
from encoders.phrases import counted
from indexer.readers.records.files import LONG_LINE, RECORD_LIMIT, SourceFile
from indexer.readers.records.record import RecordNotes, known_names, make_document, visible
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark

_ABOVE = 20
"""Maximum lines above the header and of it."""
_STATED = re.compile(r'"?sep=(.)["\s;,]*$', re.IGNORECASE)
"""The first line of a file of Excel that states its delimiter."""
_NEVER = "\x1f"
"""The delimiter of a lone column, whose texts may have commas."""
_NO_VALUE = {"NaN", "nan", "NaT", "<NA>", "None", "NULL", "\\N", "#N/A"}.union(
    f"{sign}{name}" for sign in ("", "-") for name in ("Infinity", "inf", "Inf")
)
"""What programs write for a missing value."""


def read_csv(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each row; quotes as in RFC 4180, commas or semicolons as in the header."""
    yield from _read(file, options, tabs=False)


def read_tsv(file: SourceFile, options: ReadOptions) -> Iterator[Reading]:
    """Yield a document or a refusal for each line; columns end at tabs, and quotes have no special meaning."""
    yield from _read(file, options, tabs=True)


class _LongRowError(csv.Error):
    """A row's lines have together more characters than ``RECORD_LIMIT``."""


class _Lines:
    """Decoded lines of a file; a row's later lines can be read again, since a stray quote swallows lines after it."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._decoded = self._decode()
        self._pending: deque[tuple[int, str]] = deque()
        self._refused: list[Refusal] = []
        self.current: list[tuple[int, str]] = []  # (line number, text) of the current row's lines
        self._characters = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.current.append(self._pending.popleft() if self._pending else next(self._decoded))
        line = self.current[-1][1]
        self._characters += len(line)
        if self._characters > RECORD_LIMIT and len(self.current) > 1:
            raise _LongRowError(f"it has more than {RECORD_LIMIT >> 20} MB")
        return line

    def begin_row(self) -> None:
        self.current.clear()
        self._characters = 0

    def rewind(self, first: int) -> None:
        """Put back the lines of the current row from the ``first`` on."""
        self._pending.extendleft(reversed(self.current[first:]))
        self.begin_row()

    def refused(self) -> list[Refusal]:
        """Return the refusals of lines since the last call."""
        refused, self._refused = self._refused, []
        return refused

    def _decode(self) -> Iterator[tuple[int, str]]:
        for line in self._file.lines_or_none():
            if line is None:
                self._refused.append(Refusal(self._file.at(self._file.line), LONG_LINE))
            else:
                # a lone CR is a line break in a cell, which quotes need not stand around
                yield self._file.line, f"{line.decode('utf-8', 'replace')}\n".replace("\r", "\v")


def _read(file: SourceFile, options: ReadOptions, *, tabs: bool) -> Iterator[Reading]:
    csv.field_size_limit(RECORD_LIMIT)
    lines = _Lines(file)
    layout, skipped = _find_header(lines, options, tabs=tabs)
    rows = _rows(lines, layout)
    line, header = next(rows, (1, []))
    table = _Table(header if isinstance(header, list) else [], options)
    if problem := table.problem():
        yield Refusal(file.at(line), problem)
        return
    has_row = False
    for line, row in rows:
        yield from lines.refused()
        if isinstance(row, csv.Error):
            yield Refusal(file.at(line), f"the row can't be read ({row}); see to its quotes")
        elif any(map(str.strip, row)):
            has_row = True
            yield table.read(row, file.at(line), file.record_id(line))
    yield from lines.refused()
    if not has_row:
        yield Refusal(file.shown, "it has a header and no row that can be read")
    if skipped:
        yield Remark(file.shown, f"{counted(skipped, 'line')} above the header: left out")
    if table.unnamed:
        yield Remark(file.shown, "its columns without a name are left out")
    yield from table.notes.remarks(file.shown, "FILE:LINE")


class _Table:
    """Makes documents of rows by their header, and notes what they lack."""

    def __init__(self, header: list[str], options: ReadOptions) -> None:
        self._options, self._header = options, header
        names = [visible(name) for name in header]
        while names and not names[-1]:
            names.pop()
        known = known_names(names, options)
        self._columns = [known.get(name, name) for name in names]
        self._names = {field: options.fields.get(field, field) for field in ("text", "id", "lang")}
        self.notes = RecordNotes(made_ids=self._names["id"] not in self._columns)
        self.notes.take_id_name(known)
        self.unnamed = False  # whether a column without a name has values

    def problem(self) -> str:
        """Why the header can't be read; empty if it can."""
        columns = self._columns
        for field in ("text", "id"):
            if (name := self._names[field]) not in columns and (field == "text" or field in self._options.fields):
                shown = ", ".join(columns[:10]) or "none"
                return f"its header has no column {name!r} (it has {shown}); name the column: --field {field}=COLUMN"
        repeated = next((name for name, count in Counter(columns).items() if name and count > 1), None)
        return f"its header names the column {repeated!r} more than once; rename all but one" if repeated else ""

    def read(self, row: list[str], place: str, record_id: str) -> Document | Refusal:
        """The document or the refusal of a row; ``record_id`` is its id if the header has none."""
        if row[1:] == self._header[1:] and visible(row[0]) == visible(self._header[0]):
            return Refusal(place, "the row is the header again, as in joined files; take it out")
        while len(row) > len(self._columns) and not row[-1].strip():
            row.pop()
        if len(row) != len(self._columns):
            too_many = "take the delimiter out of the values, or quote them in a CSV file"
            advice = "fill them" if len(row) < len(self._columns) else too_many
            columns = f"{counted(len(row), 'column')} and the header {len(self._columns)}"
            return Refusal(place, f"the row has {columns}; {advice}")
        values = {self._names["id"]: record_id, **dict(zip(self._columns, row, strict=True))}
        self.unnamed |= bool(values.pop("", ""))
        for name, value in values.items():
            if value in _NO_VALUE and (value, name) != ("nan", self._names["lang"]):  # the code of Min Nan
                self.notes.missing += 1
                self.notes.made_ids |= name == self._names["id"]
                values[name] = record_id if name == self._names["id"] else ""
        needed = (self._names["text"], self._names["id"])
        return make_document(
            {name: value for name, value in values.items() if value or name in needed}, place, self._options
        )


class _Layout(NamedTuple):
    """How lines give rows."""

    delimiter: str
    tabs: bool
    header: str  # its first line

    def rows(self, lines: Iterable[str], *, strict: bool) -> Iterator[list[str]]:
        """The rows; quotes may follow blanks if they do in the header. Raises csv.Error."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_NONE if self.tabs else csv.QUOTE_MINIMAL,
            skipinitialspace=f'{self.delimiter} "' in self.header,
            strict=strict,
        )

    def known_columns(self, lines: Iterable[str], options: ReadOptions) -> int:
        """Number of a document's fields that the first row names; 0 if none holds the text."""
        columns: list[str] = []
        with suppress(csv.Error):
            columns = [visible(name) for name in next(self.rows(lines, strict=False), [])]
        names = {*columns, *known_names(columns, options).values()}
        text, *others = (options.fields.get(field, field) for field in ("text", "id", "title", "lang"))
        return 1 + len(names & {*others} - {text}) if text in names else 0


def _find_header(lines: _Lines, options: ReadOptions, *, tabs: bool) -> tuple[_Layout, int]:
    """Go to the header, else the first line that is not blank; return layout and number of lines above."""
    with suppress(_LongRowError):
        deque(islice(lines, _ABOVE), maxlen=0)
    texts = [text for _, text in lines.current]
    stated = _STATED.match(texts[0]) if texts else None
    delimiters = stated[1] if stated else "\t" if tabs else ",;\t|"
    begin = next((number for number in range(stated is not None, len(texts)) if texts[number].strip()), 0)
    for number, text in enumerate(texts[begin:], start=begin):
        for delimiter in sorted(delimiters, key=text.count, reverse=True):
            layout = _Layout(delimiter if tabs or delimiter in text else _NEVER, tabs, text)
            known = layout.known_columns(texts[number:], options)
            above = [line.strip(f"{delimiters} \n") for line in texts[begin:number]]
            if known and all(line.count(delimiter) < text.count(delimiter) for line in above):
                lines.rewind(number)
                return layout, sum(map(bool, above))
    header = "".join(texts[begin : begin + 1])
    lines.rewind(begin)
    return _Layout(max(delimiters, key=header.count), tabs, header), 0


def _rows(lines: _Lines, layout: _Layout) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield each row with the number of its first line; the error in place of a row that can't be parsed."""
    while True:
        try:
            for row in layout.rows(lines, strict=True):
                yield lines.current[0][0], row
                lines.begin_row()
        except csv.Error as error:
            yield lines.current[0][0], error
            lines.rewind(len(lines.current) if isinstance(error, _LongRowError) else 1)
        else:
            return
