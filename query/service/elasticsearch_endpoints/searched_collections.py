"""The collections that a search reads, narrowed to the caller's rights and filters: one, or several as one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from encoders.errors import BadInput
from indexer.cluster.source_values import values
from indexer.stores.attached.companion_index import CompanionStore
from indexer.stores.contract import ChecksFields, Filters, OnServer
from query.collections.several_collections import joined, name_and_id
from query.ranking.search_hits import Hit
from query.ranking.searcher import Searcher
from query.service.elasticsearch_endpoints import cross_lingual_clause
from query.service.elasticsearch_endpoints.collection_places import Place
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
    def of(cls, place: Place, searcher: Searcher, search: CrossLingual, authorization: str) -> Self:
        """Narrow a searcher to the caller's rights and to the filters of a search."""
        store, rights = searcher.store, bool(authorization)
        if not isinstance(store, OnServer):
            return cls(
                place, searcher, cross_lingual_clause.as_filters(search.filters, place.read_fields) or None, rights
            )
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

    def matching(self, search: CrossLingual, targets: Sequence[str]) -> int | None:
        """Number of documents that can be found; none if it may not be told.

        The rules of an index whose vectors lie beside it do not hold in the index of the vectors: a count there would
        tell of hidden documents.
        """
        store, languages = self.searcher.store, self.searcher.languages
        if self.rights and isinstance(store, CompanionStore):
            return None
        own = [lang for lang in targets if lang in languages]
        if search.filters or self.rights:
            return store.count_passing(own, self.filters) if own else 0
        return sum(languages[lang] for lang in own)

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

    def shown(self, hits: Mapping[str, Hit]) -> dict[str, ShownDocument]:
        """What is shown of hits, by the documents' ids in the collection; documents that are gone are left out."""
        store, text_field = self.searcher.store, self.place.read_fields[0]
        sources: Mapping[str, Mapping[str, Any]]
        if isinstance(store, OnServer):
            name, sources = store.shown_index, store.originals(list(hits)) if hits else {}
        else:
            name, sources = (
                self.place.collection,
                {
                    doc_id: {
                        "title": hit.title,
                        "text": hit.text,
                        "lang": hit.lang,
                        "fields": dict(hit.document.fields),
                    }
                    for doc_id, hit in hits.items()
                },
            )
        return {doc_id: ShownDocument(name, doc_id, source, text_field) for doc_id, source in sources.items()}


@dataclass(frozen=True)
class Searched:
    """What a search reads."""

    collections: Mapping[str, SearchedCollection]  # by name; hits of several have the ids ``NAME/ID``
    searcher: Searcher  # of the one collection, or of all of them as one

    @classmethod
    def of(cls, collections: Sequence[SearchedCollection]) -> Self:
        """One collection, or several as one. Raises BadInput: the collections can't be ranked together."""
        by_name = {collection.place.collection: collection for collection in collections}
        if len(collections) == 1:
            return cls(by_name, collections[0].searcher)
        searchers = {name: collection.searcher for name, collection in by_name.items()}
        searcher = joined(searchers, {name: collection.filters for name, collection in by_name.items()})
        searcher.reranker = collections[0].searcher.reranker
        return cls(by_name, searcher)

    @property
    def filters(self) -> Filters | None:
        """The filters that are left for the search; those of several collections are in the searcher."""
        (filters, *others) = (collection.filters for collection in self.collections.values())
        return None if others else filters

    def matching(self, search: CrossLingual, hits: Sequence[Hit]) -> int | None:
        """Number of documents that the search can find; none: at least the hits, as ``min_score`` needs a ranking."""
        if len(hits) < search.asked.k:
            return len(hits)
        if search.min_score is not None:
            return None
        count = self.count(search)
        return None if count is None else max(len(hits), count)

    def count(self, search: CrossLingual) -> int | None:
        """Number of documents that the search can rank; none if it may not be told."""
        targets = self.searcher.targets(search.asked.to)
        counts = [collection.matching(search, targets) for collection in self.collections.values()]
        return None if None in counts else sum(count for count in counts if count)

    def require_visible(self) -> None:
        """Check that the caller may see the fields by which documents are found, as of each collection."""
        for collection in self.collections.values():
            collection.require_visible()

    def groups(self, search: CrossLingual, hits: Sequence[Hit]) -> list[Group]:
        """The hits of at least the least score, alone or collapsed. Raises BadInput: no field; Refused: its values."""
        reaching, collapse = search.reaching(hits), search.collapse
        if collapse is None:
            return [Group([hit]) for hit in reaching]
        groups = collapsed(reaching, lambda hit: self._of(hit.doc_id)[0].value(hit, collapse.field))
        if groups and all(group.value is None for group in groups):
            self.require_fields([re.sub(r"^fields\.|\.keyword$", "", collapse.field)])
        return groups

    def require_fields(self, names: Sequence[str] | None = None) -> None:
        """Raise BadInput if no document has these fields, by default those of the filters; a server's index has any."""
        missing: list[BadInput] = []
        for collection in self.collections.values():
            store = collection.searcher.store
            if not isinstance(store, ChecksFields):
                return None
            try:
                return store.require_fields(list(collection.filters or ()) if names is None else names)
            except BadInput as error:
                missing.append(error)
        raise missing[0]

    def _of(self, doc_id: str) -> tuple[SearchedCollection, str]:
        """The collection of a hit, and the document's id there."""
        if len(self.collections) > 1:
            name, own_id = name_and_id(doc_id)
            return self.collections[name], own_id
        (collection,) = self.collections.values()
        return collection, doc_id

    def shown(self, hits: Sequence[Hit]) -> dict[str, ShownDocument]:
        """What is shown of hits, by their ids; documents that are gone are left out."""
        shown: dict[str, ShownDocument] = {}
        for collection in self.collections.values():
            own = {own_id: hit for hit in hits for of, own_id in [self._of(hit.doc_id)] if of is collection}
            shown |= {own[own_id].doc_id: document for own_id, document in collection.shown(own).items()}
        return shown
