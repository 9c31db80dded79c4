"""What a table loses in a narrow terminal, and what it never loses."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest

from encoders.table_layout import Table, draw

ROW = ["12.de-bm25", "a long name of a collection", "own-language@10", "0.123", "0.456"]
HEADINGS = ["run", "~name", "measure", ">first mean", ">second mean"]


def drawn(width: int, headings: Sequence[str], row: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The lines of each table that is drawn, without rules and margins, and the columns that are left out."""
    file = io.StringIO()
    left_out = draw(Table(headings, [row]), file, width, colours=False)
    tables: list[list[str]] = []
    for line in map(str.strip, file.getvalue().splitlines()):
        if not line:
            tables.append([])
        elif "─" not in line:
            tables[-1].append(line)
    return [table for table in tables if table], left_out


@pytest.mark.parametrize(
    ("width", "headings", "row", "tables", "left_out"),
    [
        pytest.param(
            160,
            ["run", "~-tag", ">first mean"],
            ["1.de", "a tag", "0.5"],
            [["run   tag    first mean", "1.de  a tag         0.5"]],
            [],
            id="a table that fits is as wide as its texts",
        ),
        pytest.param(
            60,
            HEADINGS,
            ROW,
            [
                [
                    "first  second",
                    "run         name            measure           mean    mean",
                    "12.de-bm25  a long name of  own-language@10  0.123   0.456",
                    "a collection",
                ]
            ],
            [],
            id="folding columns and headings fold first",
        ),
        pytest.param(
            50,
            ["run", "-collection", "measure", "-tag", ">mean"],
            [*ROW[:3], "tag", "0.456"],
            [["run         measure          tag   mean", "12.de-bm25  own-language@10  tag  0.456"]],
            ["collection"],
            id="optional columns go before another table is needed",
        ),
        pytest.param(
            30,
            ["run", "lang", ">AP", ">P@10", ">R@100"],
            ["1.de", "de", "0.123", "0.456", "0.789"],
            [["run   lang     AP   P@10", "1.de  de    0.123  0.456"], ["run   lang  R@100", "1.de  de    0.789"]],
            [],
            id="what has no place stands in further tables that repeat the first columns",
        ),
        pytest.param(
            20,
            ["run", ">mean"],
            ["an-id-of-thirty-characters-here", "0.123"],
            [["run                               mean", "an-id-of-thirty-characters-here  0.123"]],
            [],
            id="a column wider than the terminal is whole nonetheless",
        ),
    ],
)
def test_a_table_in_a_terminal(
    width: int, headings: Sequence[str], row: Sequence[str], tables: list[list[str]], left_out: list[str]
) -> None:
    assert drawn(width, headings, row) == (tables, left_out)


def test_a_long_word_of_a_folding_column_leaves_room_for_figures() -> None:
    ((_, *lines),), _ = drawn(40, ["~query", ">MRR"], ["x" * 60, "0.123"])
    assert max(map(len, lines)) <= 40
    assert lines[0].endswith("0.123")


def test_a_table_without_rows_has_its_headings() -> None:
    file = io.StringIO()
    draw(Table(["run", ">mean"], []), file, 160, colours=False)
    assert "run  mean" in file.getvalue()
