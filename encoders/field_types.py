"""Values of a JSON file against the types of the dataclass that they fill."""

import json
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def filled(kind: type[T], values: Any) -> T:
    """Fill a dataclass. Raises TypeError: an entry is missing, unknown, or no str, number, bool, literal or list.

    A list becomes a tuple.
    """
    if not isinstance(values, dict):
        raise TypeError("its entries are no object")
    needed = {field.name: field.default is MISSING for field in fields(kind)}
    for name in sorted(needed.keys() ^ values.keys()):
        if needed.get(name, True):
            raise TypeError(f"{name} is {'missing' if name in needed else 'unknown'}")
    instance = kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
    for name, hint in get_type_hints(kind).items():
        if not _fits(value := getattr(instance, name), hint):
            raise TypeError(f"{name} is {_described(value)}; it must be {_wanted(hint)}")
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
