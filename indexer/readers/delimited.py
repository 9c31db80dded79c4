"""CSV and TSV with a header."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator

from encoders.phrases import counted
from indexer.readers.records.files import LONG_LINE, RECORD_LIMIT, SourceFile
from indexer.readers.records.record import id_remark, make_document
from indexer.readers.records.source import Reading, ReadOptions, Refusal, Remark


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
        """Forget the lines of the current row."""
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
                yield self._file.line, f"{line.decode('utf-8', 'replace')}\n"


def _read(file: SourceFile, options: ReadOptions, *, tabs: bool) -> Iterator[Reading]:
    csv.field_size_limit(RECORD_LIMIT)
    lines = _Lines(file)
    rows = _rows(lines, tabs=tabs)
    _, header = next(rows, (0, []))
    header = [name.strip() for name in header] if isinstance(header, list) else []
    needed = {"text": "text", **options.fields}
    if missing := [field for field in ("text", "id") if field in needed and needed[field] not in header]:
        field, columns = missing[0], ", ".join(header[:10]) or "none"
        yield Refusal(
            file.at(1),
            f"its header has no column {needed[field]!r} (it has {columns}); name the column: --field {field}=COLUMN",
        )
        return
    if repeated := next((name for name in header if name and header.count(name) > 1), None):
        yield Refusal(file.at(1), f"its header names the column {repeated!r} more than once; rename all but one")
        return
    id_column = needed.get("id", "id")
    for line, row in rows:
        yield from lines.refused()
        if isinstance(row, csv.Error):
            yield Refusal(file.at(line), f"the row can't be read ({row}); see to its quotes")
        elif len(row) not in (0, len(header)):
            yield _uneven(row, header, file.at(line))
        elif row:
            values = {id_column: file.record_id(line), **dict(zip(header, row, strict=True))}
            record = {name: value for name, value in values.items() if value or name in (needed["text"], id_column)}
            yield make_document(record, file.at(line), options)
    yield from lines.refused()
    if id_column not in header:
        yield Remark(file.shown, id_remark("FILE:LINE"))


def _rows(lines: _Lines, *, tabs: bool) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield each row with the number of its first line; the error in place of a row that can't be parsed."""
    header_line = next(lines, "")
    delimiter = "\t" if tabs else max(",;\t|", key=header_line.count)
    lines.rewind(0)
    while True:
        rows = csv.reader(
            lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL, strict=True
        )
        try:
            for row in rows:
                yield lines.current[0][0], row
                lines.begin_row()
        except _LongRowError as error:
            yield lines.current[0][0], error
            lines.begin_row()
        except csv.Error as error:
            yield lines.current[0][0], error
            lines.rewind(1)
        else:
            return


def _uneven(row: list[str], header: list[str], place: str) -> Refusal:
    """The refusal of a row that has not as many columns as the header."""
    too_many = "take the delimiter out of the values, or quote them in a CSV file"
    advice = "fill them" if len(row) < len(header) else too_many
    return Refusal(place, f"the row has {counted(len(row), 'column')} and the header {len(header)}; {advice}")
