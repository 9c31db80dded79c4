"""Where the served collections' documents are, and which of them a call's path names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

import sqlalchemy as sa

from indexer.cluster.cluster_address import SCHEMES, Address
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.ledger import attach_ledger
from indexer.stores.attached.attached_address import Attachment, is_attached
from query.service.refusals import Refused


@dataclass(frozen=True)
class Place:
    """Where a collection's documents are, and by which names callers reach them."""

    collection: str
    server: str  # of the cluster; empty: the documents are not in a cluster
    indices: frozenset[str]  # names by which the cluster knows them: of indices, and the family's aliases and patterns
    served: Mapping[str, Sequence[str]]  # indices that anybody may read, by the names that may be given for them
    # fields of a source with text and, if the index has them, title and language; they can't filter
    read_fields: Sequence[str] = ("text", "title", "lang")
    attached: str = ""  # the user's index that the collection is attached to; empty: the index is Dragoman's own
    lang_field: str = "lang"  # the one of them that has the language; empty: none has

    @classmethod
    def of(cls, row: Collection, settings: Settings, engine: sa.Engine) -> Self:
        """The place of a collection."""
        url = row.place(settings)
        if is_attached(url):
            attachment = Attachment.parse(url)
            members = attach_ledger.remembered(engine, row.name) if attachment.family else []
            indices = frozenset([*attachment.parts, *(index for _, index in members)])
            fields, lang_field = attachment.read_fields, attachment.lang_field
            followed = attach_ledger.followed(engine, row.name) if attachment.family else []
            served = _served(attachment.parts, followed) if attachment.family else {name: [name] for name in indices}
            return cls(row.name, attachment.server, indices, served, fields, attachment.index, lang_field)
        if not url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
            return cls(row.name, "", frozenset({row.name}), {})
        address = Address.parse(url)
        alias = f"{address.prefix}-{row.name}"
        names = frozenset({alias, f"{alias}-{row.generation:06d}"})
        return cls(row.name, address.server, names, {name: [name] for name in names})

    @property
    def documents(self) -> tuple[str, str]:
        """What collections of the same documents have in common."""
        return (self.server, self.attached) if self.attached else ("", self.collection)


def _served(parts: Sequence[str], followed: Sequence[str]) -> dict[str, Sequence[str]]:
    """The indices that each name stands for; which of them an alias beside other names has is not known."""
    served: dict[str, Sequence[str]] = {name: [name] for name in followed}
    for part in parts:
        if part not in served:
            matching = followed if len(parts) == 1 else [name for name in followed if fnmatchcase(name, part)]
            served |= {part: matching} if matching else {}
    return served


_NOT_SERVED = "no collection is served for the index {!r}; see /api/collections"


@dataclass(frozen=True)
class NamedPlace:
    """A place that a path names."""

    place: Place
    by_pattern: bool  # whether a pattern alone names it: where a caller may not read, a pattern means nothing
    indices: Sequence[str] = ()  # names and patterns of those of its indices that are named; empty: all


def named_places(places: Sequence[Place], names: Sequence[str]) -> list[NamedPlace]:
    """The places of a path's names and patterns, each once; a shared index stands for the first of its collections.

    Raises Refused: no collection has a name or matches a pattern.
    """
    chosen: dict[str, tuple[Place, list[str]]] = {}
    for name in sorted(names, key=lambda name: "*" in name):
        if name.startswith("-"):
            raise Refused(400, f"{name[:100]!r} leaves indices out, which is not taken here; name those to search")
        matching = [
            place for place in places if any(_fits(name, known) for known in (place.collection, *place.indices))
        ]
        if not (matching or "*" in name):
            raise Refused(404, _NOT_SERVED.format(name))
        if "*" not in name or name in [place.attached for place in matching]:
            matching = [min(matching, key=lambda place: (place.collection != name, place.attached != name))]
        for place in matching:
            if "*" not in name or all(place.documents != other.documents for other, _ in chosen.values()):
                chosen.setdefault(place.collection, (place, []))
            if place.collection in chosen:
                chosen[place.collection][1].append(name)
    if not chosen:
        raise Refused(404, _NOT_SERVED.format(",".join(names)))
    return [
        NamedPlace(
            place, all("*" in name for name in own), [] if {place.collection, place.attached} & set(own) else own
        )
        for place, own in chosen.values()
    ]


def _fits(name: str, known: str) -> bool:
    # only patterns with a dot match hidden names
    return name == known or ("*" in name and known.startswith(".") == name.startswith(".") and fnmatchcase(known, name))
