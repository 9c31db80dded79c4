"""Where the served collections' documents are, and which of them a call's path names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

from indexer.cluster.cluster_address import SCHEMES, Address
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.stores.attached.attached_address import Attachment, is_attached
from query.service.refusals import Refused


@dataclass(frozen=True)
class Place:
    """Where a collection's documents are, and by which names callers reach them."""

    collection: str
    server: str  # of the cluster; empty: the documents are not in a cluster
    names: frozenset[str]  # that a path may have for it: the collection's own, and those of its index
    # fields of a source with text and, if the index has them, title and language; they can't filter
    read_fields: Sequence[str] = ("text", "title", "lang")
    attached: str = ""  # the user's index that the collection is attached to; empty: the index is Dragoman's own
    lang_field: str = "lang"  # the one of them that has the language; empty: none has

    @classmethod
    def of(cls, row: Collection, settings: Settings) -> Self:
        """The place of a collection."""
        url = row.place(settings)
        if is_attached(url):
            attachment = Attachment.parse(url)
            names = frozenset({row.name, attachment.index})
            fields, lang_field = attachment.read_fields, attachment.lang_field
            return cls(row.name, attachment.server, names, fields, attachment.index, lang_field)
        if not url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
            return cls(row.name, "", frozenset({row.name}))
        address = Address.parse(url)
        alias = f"{address.prefix}-{row.name}"
        return cls(row.name, address.server, frozenset({row.name, alias, f"{alias}-{row.generation:06d}"}))

    @property
    def indices(self) -> frozenset[str]:
        """The names that the cluster knows."""
        return self.names if not self.server else self.names - {self.collection} or self.names

    @property
    def documents(self) -> tuple[str, str]:
        """What collections of the same documents have in common."""
        return (self.server, self.attached) if self.attached else ("", self.collection)


_NOT_SERVED = "no collection is served for the index {!r}; see /api/collections"


@dataclass(frozen=True)
class NamedPlace:
    """A place that a path names."""

    place: Place
    by_pattern: bool  # whether a pattern alone names it: where a caller may not read, a pattern means nothing


def named_places(places: Sequence[Place], names: Sequence[str]) -> list[NamedPlace]:
    """The places of a path's names and patterns, each once; a shared index stands for the first of its collections.

    Raises Refused: no collection has a name or matches a pattern, or two names are of collections of one index.
    """
    chosen: dict[tuple[str, str], NamedPlace] = {}
    for name in names:
        is_pattern = "*" in name
        matching = [place for place in places if any(_fits(name, known) for known in place.names)]
        if not (matching or is_pattern):
            raise Refused(404, _NOT_SERVED.format(name))
        if not is_pattern:
            matching = [next((place for place in matching if place.collection == name), matching[0])]
        for place in matching:
            before = chosen.get(place.documents)
            if before is None or (before.by_pattern and not is_pattern):
                chosen[place.documents] = NamedPlace(place, is_pattern)
            elif not is_pattern and before.place != place:
                raise Refused(
                    400,
                    f"{before.place.collection} and {place.collection} are collections of one index, and would show "
                    "its documents twice; search one of them",
                )
    if not chosen:
        raise Refused(404, _NOT_SERVED.format(",".join(names)))
    return list(chosen.values())


def _fits(name: str, known: str) -> bool:
    # only patterns with a dot match hidden names
    return name == known or ("*" in name and known.startswith(".") == name.startswith(".") and fnmatchcase(known, name))
