"""The figures that the papers publish, from ``figures/``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FIGURES = Path(__file__).parent / "figures"


@cache
def published(paper: str) -> dict[str, Any]:
    """The figures of a paper, by the names of its file."""
    return tomllib.loads((_FIGURES / f"{paper}.toml").read_text(encoding="utf-8"))


def by_pair(rows: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Rows by pair of languages, from names like ``de-fi``."""
    pairs = {}
    for name, row in rows.items():
        first, _, second = name.partition("-")
        pairs[first, second] = row
    return pairs
