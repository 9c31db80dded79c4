"""A table at a terminal, drawn by rich: which columns fold, which are left out, and which stand in a further table."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, Self, TextIO

from encoders.printable import printable

_EDGES, _GAP = 2, 2
"""Width of the space at the two edges, and between two columns, in terminal columns."""
_LONGEST_WORD = 20
"""Width at which a word of a folding column is broken."""


class Table(NamedTuple):
    """A table of a result.

    Marks before a column's heading: ``>`` aligns it to the right, ``~`` lets its cells fold over lines, and ``-`` lets
    a narrow terminal leave it out. Without ``~`` and ``-`` a column is always shown whole.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    @classmethod
    def of(cls, records: Iterable[Mapping[str, str]], title: str = "") -> Self:
        """A table of records, each a mapping from heading to cell."""
        rows = list(records)
        return cls(list(rows[0]) if rows else [], [list(row.values()) for row in rows], title)


class _Column(NamedTuple):
    """A column with the widths that it needs: folded as far as it may, and unfolded."""

    name: str
    marks: str
    cells: Sequence[str]
    narrow: int
    wide: int


def draw(table: Table, file: TextIO, width: int, *, colours: bool) -> list[str]:
    """Print a table in ``width`` terminal columns, and return the names of the columns that are left out.

    If a table is too wide, headings and folding columns fold, then further tables repeat the first columns, which name
    a row, and take more columns. Optional columns are shown if they need no further table. A column may be wider.
    """
    from rich import box  # noqa: PLC0415 - the import takes a third of a second
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    columns = [
        _measured(heading, [printable(row[number]) for row in table.rows], cell_len)
        for number, heading in enumerate(table.headings)
    ]
    folds = _total(column.wide for column in columns) > width
    shown = [column for column in columns if not (folds and "-" in column.marks)]
    for column in columns:
        with_it = [other for other in columns if other is column or other in shown]
        if len(_parts(with_it, width)) == len(_parts(shown, width)):
            shown = with_it
    parts = _parts(shown, width) if folds else [columns]
    widest = max(_total(column.narrow for column in part) for part in parts)
    # a height, or else rich takes a dumb terminal to be 80 wide
    console = Console(file=file, highlight=False, no_color=not colours, width=max(width, widest), height=25)
    if table.title:
        console.print(Text(printable(table.title), style="italic"), soft_wrap=True)
    for part in parts:
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
        for column in part:
            folded = folds and column.wide > column.narrow and "~" not in column.marks
            drawn.add_column(
                Text(textwrap.fill(column.name, column.narrow) if folded else column.name),
                justify="right" if ">" in column.marks else "left",
                no_wrap="~" not in column.marks,
                overflow="fold",
            )
        for cells in zip(*(column.cells for column in part), strict=True):
            drawn.add_row(*map(Text, cells))
        console.print(drawn)
    return [" ".join(column.name.split()) for column in columns if column not in shown]


def _measured(heading: str, cells: Sequence[str], measured: Callable[[str], int]) -> _Column:
    """A column with its widths; its heading may fold at each space."""
    name = heading.lstrip(">~-")
    marks = heading[: len(heading) - len(name)]
    lines = [line for cell in cells for line in cell.split("\n")]
    if "~" in marks:
        narrow_cells = [min(measured(word), _LONGEST_WORD) for line in lines for word in line.split()]
    else:
        narrow_cells = [measured(line) for line in lines]
    narrow = max([*map(measured, name.split()), *narrow_cells], default=0)
    return _Column(name, marks, cells, narrow, max(map(measured, [*name.split("\n"), *lines])))


def _total(widths: Iterable[int]) -> int:
    listed = list(widths)
    return sum(listed) + _GAP * (len(listed) - 1) + _EDGES


def _parts(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """The columns by the table that they stand in."""
    repeated = list(takewhile(lambda column: not column.marks, columns))
    while len(repeated) > 1 and _total(column.narrow for column in repeated) > width // 2:
        repeated.pop()
    parts = [list(repeated)]
    for column in columns[len(repeated) :]:
        too_wide = _total(other.narrow for other in [*parts[-1], column]) > width
        if too_wide and len(parts[-1]) > len(repeated):
            parts.append(list(repeated))
        parts[-1].append(column)
    return parts
