"""Values in a ``_source``, by the paths that mappings name them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def values(source: Any, path: str) -> list[Any]:
    """Everything a path leads to, in order, through objects, arrays and names with dots; nulls are left out."""
    if isinstance(source, list):
        return [value for item in source for value in values(item, path)]
    if not path:
        return [] if source is None else [source]
    if not isinstance(source, Mapping):
        return []
    return [value for name, rest in steps(source, path) for value in values(source[name], rest)]


def joined(found: Sequence[Any], between: str) -> Any:
    """Texts as one; a value that is no text as it is, for the rules of records to refuse."""
    odd = next((value for value in found if not isinstance(value, str)), None)
    return odd if odd is not None else between.join(found)


def without(source: Any, paths: Sequence[str]) -> Any:
    """A copy that lacks what some paths lead to, and the objects that are empty then."""
    if isinstance(source, list):
        items = [(item, without(item, paths)) for item in source]
        return [kept for item, kept in items if kept == item or kept not in ({}, [])]
    if not isinstance(source, Mapping):
        return source
    copied = {}
    for name, value in source.items():
        below = [rest for path in paths for step, rest in steps(source, path) if step == name]
        if "" in below:
            continue
        kept = without(value, below) if below else value
        if kept not in ({}, []) or kept == value:
            copied[name] = kept
    return copied


def steps(source: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    """The names in an object that a path may begin with, each with the rest of the path."""
    names = path.split(".")
    steps = [(".".join(names[:at]), ".".join(names[at:])) for at in range(1, len(names) + 1)]
    return [(name, rest) for name, rest in steps if name in source]
