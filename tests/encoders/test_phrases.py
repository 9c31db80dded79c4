"""Counts and errors in sentences."""

import pytest

from encoders.phrases import counted, first_line


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("1 document", (1, "document")),
        ("0 documents", (0, "document")),
        ("12,345 documents", (12_345, "document")),
        ("1 query", (1, "query", "queries")),
        ("2 queries", (2, "query", "queries")),
    ],
)
def test_one_is_not_several(said: str, words: tuple[int, str]) -> None:
    assert counted(*words) == said


@pytest.mark.parametrize(
    ("message", "expected"), [("one\ntwo", "one"), ("\n one \n", "one"), ("", "OSError"), ("x" * 400, "x" * 300)]
)
def test_of_an_error_the_first_line_is_told(message: str, expected: str) -> None:
    assert first_line(OSError(message)) == expected
