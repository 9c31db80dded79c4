"""What a table loses in a narrow terminal, and what it never loses."""

from __future__ import annotations

from collections.abc import Sequence

from encoders.table_layout import Column, Layout, lay_out

ROW = ["12.de-bm25", "a long name of a collection", "own-language@10", "0.123", "0.456"]
HEADINGS = ["run", "~name", "measure", ">first mean", ">second mean"]


def laid_out(width: int, headings: Sequence[str] = HEADINGS, row: Sequence[str] = ROW) -> Layout:
    return lay_out([Column.of(heading) for heading in headings], [row], width, len)


def test_marks_before_a_name_say_how_a_column_behaves() -> None:
    assert Column.of("p") == Column("p", right=False, folds=False, optional=False)
    assert Column.of(">p t-test") == Column("p t-test", right=True, folds=False, optional=False)
    assert Column.of("~-tag") == Column("tag", right=False, folds=True, optional=True)
    assert Column.of("").name == ""


def test_a_table_that_fits_is_as_wide_as_its_texts() -> None:
    layout = laid_out(160)
    assert layout.parts == [{0: 10, 1: 27, 2: 15, 3: 10, 4: 11}]
    assert layout.left_out == []


def test_folding_columns_and_headings_fold_first() -> None:
    layout = laid_out(60)
    assert layout.parts == [{0: 10, 1: 12, 2: 15, 3: 5, 4: 6}]
    assert layout.width == 60


def test_optional_columns_go_before_another_table_is_needed() -> None:
    layout = laid_out(60, ["run", "-collection", "measure", "-tag", ">mean"], [*ROW[:3], "tag", "0.456"])
    assert layout.parts == [{0: 10, 2: 15, 3: 3, 4: 5}]
    assert layout.left_out == ["collection"]


def test_what_has_no_place_stands_in_further_tables_that_repeat_the_first_columns() -> None:
    row = ["1.de", "de", "0.123", "0.456", "0.789"]
    layout = laid_out(32, ["run", "lang", ">AP", ">P@10", ">R@100"], row)
    assert [sorted(part) for part in layout.parts] == [[0, 1, 2, 3], [0, 1, 4]]
    assert layout.width <= 32


def test_a_column_wider_than_the_terminal_is_whole_nonetheless() -> None:
    layout = laid_out(20, ["run", ">mean"], ["an-id-of-thirty-characters-here", "0.123"])
    assert layout.parts == [{0: 31, 1: 5}]
    assert layout.width > 20


def test_a_long_word_of_a_folding_column_leaves_room_for_figures() -> None:
    layout = laid_out(40, ["~query", ">MRR"], ["x" * 60, "0.123"])
    assert layout.width <= 40


def test_a_table_without_rows_has_its_headings() -> None:
    assert lay_out([Column.of("run"), Column.of(">mean")], [], 160, len).parts == [{0: 3, 1: 4}]
