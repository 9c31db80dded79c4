"""Ownership of indices: Dragoman marks the mapping of each index that it creates, and writes into no other index.

The name alone proves nothing: the server also numbers the indices behind a rollover alias as ``PREFIX-NAME-000001``,
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
"""Key in the ``_meta`` of a mapping."""


@dataclass(frozen=True)
class Claim:
    """The collection and the database that an index belongs to.

    Attributes:
        owner: id of the database that has the collection; empty if the reader does not know the id.
        attached: the users' index that a companion belongs to; empty if the index is no companion.
    """

    collection: str
    owner: str = ""
    attached: str = ""

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Self | None:
        """The claim in an index's mapping; None if the mapping has no complete claim."""
        mark = mapping.get("_meta", {}).get(_MARK)
        values = [mark.get(name) for name in ("collection", "owner", "attached")] if isinstance(mark, dict) else [None]
        return cls(*values) if all(isinstance(value, str) for value in values) else None

    def meta(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_meta`` of a mapping with this claim in it."""
        mark = {"collection": self.collection, "owner": self.owner, "attached": self.attached}
        return {**mapping.get("_meta", {}), _MARK: mark}

    def holds(self, mapping: Mapping[str, Any], layout: Layout) -> bool:
        """Whether an index is ours: its mark says so, or it has no mark and its mapping has exactly our layout."""
        marked = Claim.of(mapping)
        if marked is None:
            return not layout.differs(mapping)
        same = (marked.collection, marked.attached) == (self.collection, self.attached)
        return same and (marked.owner == self.owner or not (marked.owner and self.owner))

    def is_to_mark(self, mapping: Mapping[str, Any]) -> bool:
        """Whether an index that is ours lacks the mark, or the owner in the mark."""
        marked = Claim.of(mapping)
        return bool(self.owner) and (marked is None or not marked.owner)

    def refusal(self, server: str, index: str, mapping: Mapping[str, Any]) -> BadInput:
        """The error for an index that is not ours."""
        marked = Claim.of(mapping)
        if marked is None:
            cause = "was not made by Dragoman"
        elif marked.attached != self.attached:
            cause = (
                f"belongs to a collection that is attached to {marked.attached}"
                if marked.attached
                else "is no companion"
            )
        else:
            cause = "belongs to a collection of another home"
        return BadInput(
            f"the index {index} on {server} {cause}, and is left alone; take another name with -c, another prefix "
            "in --store, or delete it there if nobody needs it"
        )


def altered(description: Mapping[str, Any], layout: Layout) -> str:
    """What an index template changed in a new index; empty if nothing."""
    mapping, settings = description["mappings"], description["settings"]["index"]
    if description.get("aliases"):
        return f"the alias {min(description['aliases'])}"
    source = settings.get("mapping", {}).get("source", {}).get("mode", "stored")
    if mapping.get("_source") or source != "stored" or settings.get("mode", "standard") != "standard":
        return "another _source"
    if mapping.get("_routing"):
        return "required routing"
    return layout.differs(mapping)


def templates(client: Elasticsearch, index: str) -> str:
    """Names of the server's index templates that match an index, or where to look if they can't be read."""
    from elasticsearch import ApiError  # noqa: PLC0415

    try:
        listed = client.indices.get_index_template()["index_templates"]
    except ApiError:
        return "see _index_template"
    patterns_by_name = {template["name"]: template["index_template"]["index_patterns"] for template in listed}
    return ", ".join(
        sorted(
            name
            for name, patterns in patterns_by_name.items()
            if any(fnmatchcase(index, pattern) for pattern in patterns)
        )
    )


def refuse_altered(client: Elasticsearch, server: str, index: str, layout: Layout) -> None:
    """Remove a new index that an index template changed.

    Raises:
        StoreError: a template changed the index.
    """
    description = client.indices.get(index=index, features=["aliases", "mappings", "settings"])[index]
    if change := altered(description, layout):
        client.indices.delete(index=index)
        raise StoreError(
            f"an index template of {server} gives {index} {change} ({templates(client, index)}); "
            "exempt the prefix there, or take another in --store"
        )


def aliased_indices(client: Elasticsearch, server: str, alias: str, claim: Claim, layout: Layout) -> set[str]:
    """The indices that an alias of ours stands for.

    Raises:
        BadInput: the name is an index's, or stands for an index that is not ours.
    """
    indices = client.options(ignore_status=404).indices.get(index=alias, features=["mappings"]).body
    if "error" in indices:
        return set()
    for index, description in indices.items():
        if index == alias or not claim.holds(description["mappings"], layout):
            kind = "an index" if index == alias else f"an alias of {index}, which is not this collection's"
            raise BadInput(
                f"{alias} is the name of {kind} on {server}, and readers of the collection would be led there; "
                "take another name with -c, or another prefix in --store"
            )
    return set(indices)
