"""Whether what a name stands for on a server can be read, and whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoders.errors import BadInput


def keeps_no_source(mapping: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether an index keeps no ``_source``, as its mapping says, or its settings."""
    source = mapping.get("_source", {})
    mode = settings.get("mapping", {}).get("source", {}).get("mode") or source.get("mode")
    return source.get("enabled") is False or mode == "disabled"


def refuse_partial(asked: str, aliases: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse an alias that shows a part of its index: what is read by shard and number, or by id, is the whole.

    Raises:
        BadInput: it is one.
    """
    alias = aliases.get(asked, {})
    if "filter" in alias or "search_routing" in alias:
        how = "a filter" if "filter" in alias else "a routing value"
        raise BadInput(
            f"{asked} is an alias with {how}, and all of its index would be read; "
            "name the index itself (dragoman detach takes back what is attached by the alias)"
        )
