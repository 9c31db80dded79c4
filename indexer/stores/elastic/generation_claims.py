"""Whose an index is: a mark in the mapping of each that is made here; none without it is written into or removed.

The name alone says nothing: ``PREFIX-NAME-000001`` is also how the server numbers the indices behind a rollover alias,
and another home may have a collection of the same name under the same prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self

from encoders.errors import BadInput, StoreError
from indexer.stores.elastic.layout import Layout

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_MARK = "dragoman"
"""In the ``_meta`` of a mapping."""


@dataclass(frozen=True)
class Claim:
    """Whose an index of ours is.

    Attributes:
        collection: its name.
        owner: id of the database that has the collection; empty: whoever asks does not know, and need not.
        attached: the index that a companion belongs to; empty: it is no companion.
    """

    collection: str
    owner: str = ""
    attached: str = ""

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Self | None:
        """The claim that an index's mapping carries."""
        kept = mapping.get("_meta", {}).get(_MARK)
        known = [kept.get(name) for name in ("collection", "owner", "attached")] if isinstance(kept, dict) else [None]
        return cls(*known) if all(isinstance(one, str) for one in known) else None

    def meta(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_meta`` of a mapping with this claim in it."""
        kept = {"collection": self.collection, "owner": self.owner, "attached": self.attached}
        return {**mapping.get("_meta", {}), _MARK: kept}

    def holds(self, mapping: Mapping[str, Any], layout: Layout) -> bool:
        """Whether an index is ours: marked so, or made before there were marks, and then wholly of our shape."""
        kept = Claim.of(mapping)
        if kept is None:
            return not layout.differs(mapping)
        same = (kept.collection, kept.attached) == (self.collection, self.attached)
        return same and (kept.owner == self.owner or not (kept.owner and self.owner))

    def is_to_mark(self, mapping: Mapping[str, Any]) -> bool:
        """Whether an index that is ours does not say so yet."""
        kept = Claim.of(mapping)
        return bool(self.owner) and (kept is None or not kept.owner)

    def refusal(self, server: str, index: str, mapping: Mapping[str, Any]) -> BadInput:
        """Why an index that is not ours is left alone."""
        kept = Claim.of(mapping)
        if kept is None:
            whose = "was not made by Dragoman"
        elif kept.attached != self.attached:
            whose = (
                f"belongs to a collection that is attached to {kept.attached}" if kept.attached else "is no companion"
            )
        else:
            whose = "belongs to a collection of another home"
        return BadInput(
            f"the index {index} on {server} {whose}, and is left alone; take another name with -c, another prefix "
            "in --store, or delete it there if nobody needs it"
        )


def altered(found: Mapping[str, Any], layout: Layout) -> str:
    """What of an index just made is not as it was asked for: an index template had its say; empty if nothing is."""
    mapping, settings = found["mappings"], found["settings"]["index"]
    if found.get("aliases"):
        return f"the alias {min(found['aliases'])}"
    source = settings.get("mapping", {}).get("source", {}).get("mode", "stored")
    if mapping.get("_source") or source != "stored" or settings.get("mode", "standard") != "standard":
        return "another _source"
    if mapping.get("_routing"):
        return "required routing"
    return layout.differs(mapping)


def templates(client: Elasticsearch, index: str) -> str:
    """Names of the server's index templates that are for an index, as far as they are told."""
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        known = client.indices.get_index_template()["index_templates"]
    except ApiError:
        return "see _index_template"
    patterns = {one["name"]: one["index_template"]["index_patterns"] for one in known}
    return ", ".join(
        sorted(name for name, some in patterns.items() if any(fnmatchcase(index, pattern) for pattern in some))
    )


def refuse_altered(client: Elasticsearch, server: str, index: str, layout: Layout) -> None:
    """Remove an index just made that an index template made another one than was asked for.

    Raises:
        StoreError: it did.
    """
    found = client.indices.get(index=index, features=["aliases", "mappings", "settings"])[index]
    if what := altered(found, layout):
        client.indices.delete(index=index)
        raise StoreError(
            f"an index template of {server} gives {index} {what} ({templates(client, index)}); "
            "exempt the prefix there, or take another in --store"
        )


def behind(client: Elasticsearch, server: str, alias: str, claim: Claim, layout: Layout) -> set[str]:
    """The indices that an alias of ours stands for.

    Raises:
        BadInput: the name is an index's, or stands for one that is not ours.
    """
    found = client.options(ignore_status=404).indices.get(index=alias, features=["mappings"]).body
    if "error" in found:
        return set()
    for index, one in found.items():
        if index == alias or not claim.holds(one["mappings"], layout):
            kind = "an index" if index == alias else f"an alias of {index}, which is not this collection's"
            raise BadInput(
                f"{alias} is the name of {kind} on {server}, and readers of the collection would be led there; "
                "take another name with -c, or another prefix in --store"
            )
    return set(found)
