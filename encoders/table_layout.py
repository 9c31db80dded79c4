"""The layout of a table in a terminal: which columns fold, which are left out, and which stand in a further table.

A column's heading begins with marks: ``>`` aligns the column to the right, ``~`` lets its cells fold over lines, and
``-`` lets a narrow terminal leave the column out. A column without ``~`` and ``-`` is always shown whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Widths = dict[int, int]
"""Width of each shown column in terminal columns, by the column's number."""

_EDGES = 4
"""Width of the two edges, and of the space that the first and last columns have there."""
_WIDE_GAP, _NARROW_GAP = 3, 2
_LONGEST_WORD = 20
"""Width at which a word of a folding column is broken."""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        right: whether cells are aligned to the right.
        folds: whether cells may fold over lines.
        optional: whether a narrow terminal may leave the column out.
    """

    name: str
    right: bool
    folds: bool
    optional: bool

    @classmethod
    def of(cls, heading: str) -> Column:
        """Read the marks of a heading."""
        name = heading.lstrip(">~-")
        marks = heading[: len(heading) - len(name)]
        return cls(name, ">" in marks, "~" in marks, "-" in marks)


@dataclass(frozen=True)
class Layout:
    """How a table is shown.

    Attributes:
        gap: width between two columns in terminal columns: 2 or 3.
        parts: the tables, one below the other, that show the columns; each repeats the first columns.
        left_out: names of the columns that are not shown.
    """

    gap: int
    parts: Sequence[Widths]
    left_out: Sequence[str]

    @property
    def width(self) -> int:
        """Width of the widest part in terminal columns."""
        return max(_total(part.values(), self.gap) for part in self.parts)


def lay_out(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, measured: Callable[[str], int]
) -> Layout:
    """Lay a table out in ``width`` terminal columns; ``measured`` is the width of a text.

    In a table that is too wide, headings and folding columns fold. If that is not enough, further tables take columns;
    they repeat the first columns, which say what a row is. Optional columns, beginning with the first, are shown if
    they need no further table. A table is wider than ``width`` only if one of its columns is.
    """
    cells = [[column.name, *(row[number] for row in rows)] for number, column in enumerate(columns)]
    wide = [max(map(measured, _lines(texts))) for texts in cells]
    if _total(wide, _WIDE_GAP) <= width:
        return Layout(_WIDE_GAP, [dict(enumerate(wide))], [])
    narrow = [_least(column, texts[1:], measured) for column, texts in zip(columns, cells, strict=True)]
    shown = [number for number, column in enumerate(columns) if not column.optional]
    fewest = len(_parts(columns, shown, narrow, width))
    left_out = []
    for number, column in enumerate(columns):
        if column.optional:
            with_it = sorted([*shown, number])
            if len(_parts(columns, with_it, narrow, width)) == fewest:
                shown = with_it
            else:
                left_out.append(" ".join(column.name.split()))
    parts = _parts(columns, shown, narrow, width)
    return Layout(_NARROW_GAP, [_widened(columns, part, narrow, wide, width) for part in parts], left_out)


def _total(widths: Iterable[int], gap: int) -> int:
    widths = list(widths)
    return sum(widths) + gap * (len(widths) - 1) + _EDGES


def _lines(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in text.split("\n")]


def _least(column: Column, cells: Sequence[str], measured: Callable[[str], int]) -> int:
    """The least width of a column: of its longest word, or of the lines of its cells if the column does not fold."""
    heading = map(measured, column.name.split())
    if column.folds:
        words = [word for cell in cells for word in cell.split()]
        return max([*heading, *(min(measured(word), _LONGEST_WORD) for word in words)], default=0)
    return max([*heading, *map(measured, _lines(cells))], default=0)


def _parts(columns: Sequence[Column], shown: Sequence[int], narrow: Sequence[int], width: int) -> list[list[int]]:
    """The shown columns by the table they stand in."""
    unmarked = [number for number in shown if not any(columns[number][1:])]
    repeated = [number for position, number in enumerate(shown) if unmarked[: position + 1] == shown[: position + 1]]
    while len(repeated) > 1 and _total((narrow[number] for number in repeated), _NARROW_GAP) > width // 2:
        repeated.pop()
    parts = [list(repeated)]
    for number in shown[len(repeated) :]:
        too_wide = _total((narrow[other] for other in [*parts[-1], number]), _NARROW_GAP) > width
        if too_wide and len(parts[-1]) > len(repeated):
            parts.append(list(repeated))
        parts[-1].append(number)
    return parts


def _widened(
    columns: Sequence[Column], part: Sequence[int], narrow: Sequence[int], wide: Sequence[int], width: int
) -> Widths:
    """The widths of a table's columns; spare room goes to folding columns first, then to headings."""
    widths = {number: narrow[number] for number in part}
    for number in sorted(part, key=lambda number: not columns[number].folds):
        spare = max(width - _total(widths.values(), _NARROW_GAP), 0)
        widths[number] += min(spare, wide[number] - narrow[number])
    return widths
