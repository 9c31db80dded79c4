"""Filters by fields: values, one of which a field must have, or bounds of its values."""

import math
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any

from encoders.errors import BadInput
from encoders.printable import HALF_CHARACTER, has_surrogate

BOUNDS = ("gte", "lte")
"""Names of bounds: a value is at least this, or at most this."""
_LARGEST = sys.float_info.max
_DIGIT = re.compile(r"\d")
_DATE = re.compile(r"\d{4}(-\d\d){1,2}")
"""A month or a day, which as an upper bound takes in all of its times, as in Elasticsearch's dates."""


def missing_field(name: str, advice: str) -> BadInput:
    """The error for a field that no document has; a document's language is no field, and has advice of its own."""
    if name == "lang":
        advice = "; choose the documents' languages by --to, in Python and JSON to"
    return BadInput(f"no document has the field {name!r}{advice}")


def require_filters(filters: Any) -> None:
    """Raise ``BadInput`` if there are filters that are no values and no bounds by the names of fields."""
    if has_surrogate(filters):
        raise BadInput(f"a filter {HALF_CHARACTER}")
    if not isinstance(filters, Mapping | None) or not all(isinstance(name, str) for name in filters or ()):
        raise BadInput(f"filters are {filters!r}; give values by the names of fields, as in {{'year': 1995}}")
    for name, wanted in (filters or {}).items():
        values = wanted if isinstance(wanted, list | tuple) else [wanted]
        if not (_are_bounds(wanted) or all(isinstance(value, str | int | float) for value in values)):
            example = "a value, a list of values, or bounds as in {'gte': 1990, 'lte': 1999}"
            raise BadInput(f"the filter by {name!r} is {wanted!r}; give {example}")


def _are_bounds(wanted: Any) -> bool:
    """Whether these are bounds, all of them numbers or all of them texts."""
    if not isinstance(wanted, Mapping) or not wanted or not set(wanted) <= set(BOUNDS):
        return False
    kinds = {type(bound) for bound in wanted.values()}
    return kinds == {str} or (kinds <= {int, float} and all(abs(bound) <= _LARGEST for bound in wanted.values()))


def as_number(text: str) -> float | None:
    """The finite number that a text is; none if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def within(text: str, bounds: Mapping[str, Any]) -> bool:
    """Whether a value, as the text that filters compare, lies within bounds: numbers, or texts such as dates."""
    number, words = as_number(text), [bound for bound in bounds.values() if isinstance(bound, str)]
    value: Any = text if words else number
    if value is None or (number is not None and not all(map(_DIGIT.search, words))):
        return False
    return all(value >= bound if name == "gte" else _at_most(value, bound) for name, bound in bounds.items())


def _at_most(value: Any, bound: Any) -> bool:
    is_date = isinstance(bound, str) and _DATE.fullmatch(bound) is not None
    return bool(value <= bound or (is_date and value.startswith(bound)))


def misfit(values: Collection[str], bounds: Mapping[str, Any]) -> str:
    """Why no value lies within bounds: all values are numbers and a bound is a text, or the reverse; else empty."""
    numbers, words = sum(as_number(value) is not None for value in values), set(map(type, bounds.values())) == {str}
    if words and values and numbers == len(values):
        return f"holds numbers, and {next(iter(bounds.values()))!r} is none"
    return "" if words or numbers or not values else f"holds texts such as {next(iter(values))!r}, and no numbers"
