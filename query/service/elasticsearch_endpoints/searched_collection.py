"""The collection that a search reads, narrowed to the indices that it names, and to the caller's rights and filters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from encoders.errors import BadInput
from indexer.cluster.source_values import values
from indexer.stores.attached.companion_index import CompanionStore
from indexer.stores.attached.joined_store import JoinedStore
from indexer.stores.contract import ChecksFields, Filters, OnServer
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher
from query.service.elasticsearch_endpoints import cross_lingual_clause
from query.service.elasticsearch_endpoints.collection_places import NamedPlace, Place
from query.service.elasticsearch_endpoints.cross_lingual_clause import CrossLingual
from query.service.elasticsearch_endpoints.search_response import Group, ShownDocument, collapsed
from query.service.refusals import Refused


@dataclass(frozen=True)
class SearchedCollection:
    """A collection that a search reads."""

    place: Place
    searcher: Searcher  # narrowed to the caller's rights, and to filters in the server's own language
    filters: Filters | None  # the filters that are left for the search
    rights: bool  # whether the caller's own credentials hold

    @classmethod
    def of(cls, named: NamedPlace, searcher: Searcher, search: CrossLingual, authorization: str) -> Self:
        """Narrow a searcher to the named indices, to the caller's rights and to the filters of a search."""
        place, rights = named.place, bool(authorization)
        if (
            isinstance(searcher.store, JoinedStore)
            and searcher.store.users.attachment.family
            and (rights or named.indices)
        ):
            visible, languages = searcher.store.visible(named.indices, authorization)
            if visible is not searcher.store:
                searcher = replace(searcher, store=visible, languages=languages)
        store = searcher.store
        if not isinstance(store, OnServer):
            filters = cross_lingual_clause.as_filters(search.filters, place.read_fields)
            return cls(place, searcher, filters or None, rights)
        if not (search.filters or authorization):
            return cls(place, searcher, None, rights)
        try:
            return cls(place, replace(searcher, store=store.narrowed(search.filters, authorization)), None, rights)
        except BadInput:  # the vectors are in a companion index, which does not have the fields of the caller's clauses
            filters = cross_lingual_clause.as_filters(search.filters, place.read_fields)
        return cls(place, replace(searcher, store=store.narrowed((), authorization)), filters, rights)

    def require_visible(self) -> None:
        """Raise NotAllowed if the server hides a field that finds documents; StoreError if the index can't be read."""
        if self.rights and isinstance(self.searcher.store, OnServer):
            self.searcher.store.require_visible(self.searcher.stored_model)

    def matching(self, search: CrossLingual, hits: Sequence[Hit]) -> int | None:
        """Number of documents that the search can find; none: at least the hits, as ``min_score`` needs a ranking."""
        if len(hits) < search.asked.k:
            return len(hits)
        if search.min_score is not None:
            return None
        count = self.count(search)
        return None if count is None else max(len(hits), count)

    def count(self, search: CrossLingual) -> int | None:
        """Number of documents that the search can rank; none if it may not be told.

        The rules of an index whose vectors lie beside it do not hold in the index of the vectors: a count there would
        tell of hidden documents.
        """
        store, targets = self.searcher.store, self.searcher.targets(search.asked.to)
        if self.rights and isinstance(store, CompanionStore):
            return None
        if search.filters or self.rights:
            return store.count_passing(targets, self.filters)
        return sum(self.searcher.languages[lang] for lang in targets)

    def groups(self, search: CrossLingual, hits: Sequence[Hit]) -> list[Group]:
        """The hits of at least the least score, alone or collapsed. Raises BadInput: no field; Refused: its values."""
        reaching, collapse = search.reaching(hits), search.collapse
        if collapse is None:
            return [Group([hit]) for hit in reaching]
        groups = collapsed(reaching, lambda hit: self.value(hit, collapse.field))
        if groups and all(group.value is None for group in groups):
            self.require_fields([re.sub(r"^fields\.|\.keyword$", "", collapse.field)])
        return groups

    def require_fields(self, names: Sequence[str] | None = None) -> None:
        """Raise BadInput if no document has these fields, by default those of the filters; a server's index has any."""
        if isinstance(self.searcher.store, ChecksFields):
            self.searcher.store.require_fields(list(self.filters or ()) if names is None else names)

    def value(self, hit: Hit, field: str) -> Any:
        """A hit's value of a field; none without. Raises Refused: the field has texts, objects or several values."""
        name = field.removesuffix(".keyword")
        if name == self.place.lang_field:
            return hit.lang
        if name in self.place.read_fields:
            raise Refused(400, f"{field[:100]} can't collapse, as it has texts; name a field of keywords")
        path = name if self.place.attached else name.removeprefix("fields.")
        found = values(hit.document.fields, path)
        if len(found) > 1 or any(isinstance(value, Mapping) for value in found):
            raise Refused(400, f"{field[:100]} can't collapse, as a document has more than one value there")
        return found[0] if found else None

    def shown(self, hits: Sequence[Hit]) -> dict[str, ShownDocument]:
        """What is shown of hits, by the documents' ids in the collection; documents that are gone are left out."""
        store, text_field = self.searcher.store, self.place.read_fields[0]
        if isinstance(store, OnServer):
            sources = store.originals([hit.doc_id for hit in hits]) if hits else {}
            return {
                doc_id: ShownDocument(*store.shown_place(doc_id), source, text_field)
                for doc_id, source in sources.items()
            }
        return {
            hit.doc_id: ShownDocument(
                self.place.collection,
                hit.doc_id,
                {"title": hit.title, "text": hit.text, "lang": hit.lang, "fields": dict(hit.document.fields)},
                text_field,
            )
            for hit in hits
        }
