"""What the mapping and settings of an index say: whether a field is Dragoman's, and whether all texts can be read."""

from collections.abc import Mapping
from typing import Any

from encoders.errors import BadInput

FIELDS: Mapping[str, Any] = {
    **{name: {"type": "keyword"} for name in ("id", "lang", "text_hash", "fields_hash")},
    "revision": {"type": "long"},
}
"""Mapping of the fields that every object of Dragoman's has."""


def is_ours(mapped: Mapping[str, Any]) -> bool:
    """Whether a field's mapping is that of Dragoman's object."""
    properties = mapped.get("properties", {})
    return all(properties.get(name, {}).get("type") == field["type"] for name, field in FIELDS.items())


def source_mode(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    """How an index keeps the ``_source``; None if neither its settings nor its mapping say so."""
    mode: str | None = settings.get("mapping", {}).get("source", {}).get("mode")
    return mode or mapping.get("_source", {}).get("mode")


def keeps_no_source(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether an index keeps no ``_source``."""
    return mapping.get("_source", {}).get("enabled") is False or source_mode(mapping, settings) == "disabled"


def refuse_partial(requested: str, aliases: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse an alias that shows a part of its index, for reads are of the whole index. Raises BadInput."""
    alias = aliases.get(requested, {})
    if "filter" in alias or "search_routing" in alias:
        restriction = "a filter" if "filter" in alias else "a routing value"
        raise BadInput(
            f"{requested} is an alias with {restriction}, but its whole index would be read; "
            "name the index itself (dragoman detach removes vectors that were attached under the alias)"
        )
