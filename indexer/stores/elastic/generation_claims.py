"""Ownership of indices: Dragoman marks the mapping of each index that it creates, and writes into no other index.

The name alone proves nothing: the server also numbers the indices behind a rollover alias as ``PREFIX-NAME-000001``,
and another home may have a collection of the same name under the same prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from encoders.errors import BadInput
from indexer.stores.elastic.layout import Layout

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
