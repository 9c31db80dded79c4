"""Ids a request at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PAGE = 1000
"""Ids, or hits, that one request is about."""


def pages(doc_ids: Sequence[str]) -> Iterator[list[str]]:
    """Ids in lists that one request can be about."""
    return (list(doc_ids[start : start + PAGE]) for start in range(0, len(doc_ids), PAGE))
