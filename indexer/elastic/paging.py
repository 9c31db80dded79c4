"""Ids in pages, one for each request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PAGE = 1000
"""Maximum ids or hits of one request."""


def pages(doc_ids: Sequence[str]) -> Iterator[list[str]]:
    """Ids in lists of at most ``PAGE``."""
    return (list(doc_ids[start : start + PAGE]) for start in range(0, len(doc_ids), PAGE))
