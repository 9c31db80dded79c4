"""Values of a JSON file against the types of the dataclass that they fill."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def with_field_types(instance: T) -> T:
    """The dataclass instance itself; its fields may be strings, numbers, truth values, literals, and tuples of these.

    Raises:
        TypeError: a value has another type than its field.
    """
    hints = get_type_hints(type(instance))
    for field in fields(instance):
        value = getattr(instance, field.name)
        if not _fits(value, hints[field.name]):
            raise TypeError(f"{field.name} can't be {str(value)[:40]!r}")
    return instance


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint) if isinstance(value, str) else False
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    return type(value) is hint  # a truth value is no whole number
