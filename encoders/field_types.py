"""Values of a JSON file against the types of the dataclass that they fill."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def with_field_types(instance: T) -> T:
    """Return the instance. Raises TypeError: a value hasn't its field's type (str, number, bool, literal or tuple)."""
    hints = get_type_hints(type(instance))
    for field in fields(instance):
        value = getattr(instance, field.name)
        if not _fits(value, hints[field.name]):
            raise TypeError(f"{field.name} is {_described(value)}; it must be {_wanted(hints[field.name])}")
    return instance


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint) if isinstance(value, str) else False
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    return type(value) is hint  # a truth value is no whole number


def _described(value: object) -> str:
    return f"the string {value[:40]!r}" if isinstance(value, str) else json.dumps(value)[:40]


def _wanted(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if get_origin(hint) is tuple:
        return f"a list, and each item {_wanted(get_args(hint)[0])}"
    return {str: "a string", int: "a whole number", float: "a number with a point", bool: "true or false"}[hint]
