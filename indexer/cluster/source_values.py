"""Values in a ``_source``, by their paths in the mapping."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def values(source: Any, path: str) -> list[Any]:
    """All values at a path, in order, through objects, arrays and names with dots; nulls are left out."""
    if isinstance(source, list):
        return [value for item in source for value in values(item, path)]
    if not path:
        return [] if source is None else [source]
    if not isinstance(source, Mapping):
        return []
    return [value for name, rest in steps(source, path) for value in values(source[name], rest)]


def filter_texts(source: Any, path: str) -> set[str]:
    """The values at a path as texts for filters, not objects; numbers have fifteen digits, as in the embedded store."""
    return {_text(value) for value in values(source, path) if not isinstance(value, Mapping)}


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, float):
        return json.dumps(value)
    digits, _, exponent = f"{value:.15g}".partition("e")
    return (digits if "." in digits else f"{digits}.0") + (f"e{exponent}" if exponent else "")


def without_paths(source: Any, paths: Sequence[str]) -> Any:
    """A copy of a source without the values at the paths, and without the objects that become empty."""
    if isinstance(source, list):
        items = [(item, without_paths(item, paths)) for item in source]
        return [reduced for item, reduced in items if reduced == item or reduced not in ({}, [])]
    if not isinstance(source, Mapping):
        return source
    copied = {}
    for name, value in source.items():
        inner_paths = [rest for path in paths for step, rest in steps(source, path) if step == name]
        if "" in inner_paths:
            continue
        reduced = without_paths(value, inner_paths) if inner_paths else value
        if reduced not in ({}, []) or reduced == value:
            copied[name] = reduced
    return copied


def steps(source: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    """The names in an object with which a path may begin, each with the rest of the path."""
    names = path.split(".")
    splits = [(".".join(names[:length]), ".".join(names[length:])) for length in range(1, len(names) + 1)]
    return [(name, rest) for name, rest in splits if name in source]
