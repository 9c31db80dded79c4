"""Hits by subjects: each value of a field once, by its best hit, and the other hits with the value under it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from query.ranking.hits import Hit


@dataclass(frozen=True)
class Group:
    """Hits with one value of a field.

    Attributes:
        hits: best first; the first is shown.
        value: none: the hit has no value, and is alone.
    """

    hits: Sequence[Hit]
    value: Any = None

    @property
    def best(self) -> Hit:
        """The hit that is shown."""
        return self.hits[0]


def collapsed(hits: Sequence[Hit], value_of: Callable[[Hit], Any]) -> list[Group]:
    """The groups of ranked hits, by the ranks of their best; a hit without a value is a group of its own.

    Values compare as text, as in filters: 1994 equals "1994".
    """
    groups: dict[object, tuple[Any, list[Hit]]] = {}
    for hit in hits:
        value = value_of(hit)
        text = value if isinstance(value, str) else json.dumps(value)
        key = (hit.doc_id,) if value is None else text
        groups.setdefault(key, (value, []))[1].append(hit)
    return [Group(of_value, value) for value, of_value in groups.values()]
