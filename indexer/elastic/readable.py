"""Whether the index behind a name can be read completely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoders.errors import BadInput


def keeps_no_source(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether an index keeps no ``_source``, by its mapping or its settings."""
    source = mapping.get("_source", {})
    mode = settings.get("mapping", {}).get("source", {}).get("mode") or source.get("mode")
    return source.get("enabled") is False or mode == "disabled"


def refuse_partial(requested: str, aliases: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse an alias that shows a part of its index: reading by shard and number, or by id, reads the whole index.

    Raises:
        BadInput: ``requested`` is such an alias.
    """
    alias = aliases.get(requested, {})
    if "filter" in alias or "search_routing" in alias:
        restriction = "a filter" if "filter" in alias else "a routing value"
        raise BadInput(
            f"{requested} is an alias with {restriction}, and all of its index would be read; "
            "name the index itself (dragoman detach takes back what is attached by the alias)"
        )
