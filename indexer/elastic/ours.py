"""The object field that Dragoman adds to a document, and how to recognise it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS: Mapping[str, Any] = {
    **{name: {"type": "keyword"} for name in ("id", "lang", "text_hash", "fields_hash")},
    "revision": {"type": "long"},
}
"""Mapping of the fields that every such object has."""


def is_ours(mapped: Mapping[str, Any]) -> bool:
    """Whether a field's mapping is that of Dragoman's object."""
    properties = mapped.get("properties", {})
    return all(properties.get(name, {}).get("type") == field["type"] for name, field in FIELDS.items())
