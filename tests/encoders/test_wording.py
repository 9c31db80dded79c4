"""Counts in sentences."""

import pytest

from encoders.wording import counted


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
