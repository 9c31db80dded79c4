"""The object field that Dragoman adds to a document, and how to tell it from another of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS: Mapping[str, Any] = {
    **{name: {"type": "keyword"} for name in ("id", "lang", "text_hash", "fields_hash")},
    "revision": {"type": "long"},
}
"""What the object always has, as mappings say it."""


def is_ours(mapped: Mapping[str, Any]) -> bool:
    """Whether a field's mapping is of an object that Dragoman made."""
    there = mapped.get("properties", {})
    return all(there.get(name, {}).get("type") == field["type"] for name, field in FIELDS.items())
