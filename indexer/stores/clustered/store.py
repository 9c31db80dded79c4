"""A ``VectorStore`` in an index on an Elasticsearch server."""

import copy
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput
from indexer.cluster import cluster_client
from indexer.cluster.cluster_address import Address, Credentials
from indexer.cluster.cluster_client import PAGE, pages
from indexer.cluster.cluster_errors import NotAllowed
from indexer.stores.acceptance import Admission, admit
from indexer.stores.clustered.document_cache import DocumentCache, Write, last_write
from indexer.stores.clustered.document_layout import Layout, placed, sent_vector_of
from indexer.stores.clustered.mapped_fields import MappedFields
from indexer.stores.clustered.own_index import Claim, OwnIndex, check_name
from indexer.stores.clustered.scan import hits_by_id, pages_in_order, random_ids
from indexer.stores.clustered.search_bodies import candidates, knn_bodies, lexical_bodies, lexical_hits
from indexer.stores.clustered.server_index import Hits, ServerDocument, ServerIndex
from indexer.stores.clustered.writing import Action
from indexer.stores.contract import (
    Filters,
    LexicalHits,
    LexicalQuery,
    NearestDocuments,
    PutReport,
    Stamp,
    StoredDocument,
    VectorQuery,
    in_order,
)
from indexer.stores.field_filters import missing_field, within

_MAX_ID_BYTES = 512
_MAX_LANGUAGES = 10_000
_MAX_VALUES = 60_000
_COUNTED_AFTER = 25_000
"""Documents put by a process after which it counts the documents of each language, some of which may need a graph."""


class ServerStore:
    """Documents of one collection in an index on a server, each written whole."""

    def __init__(self, address: Address, index: ServerIndex, layout: Layout) -> None:
        self.address = address  # the server, and the type of the vectors' index
        self._index, self._layout = index, layout
        self._mapped = MappedFields(index, layout, address.vectors)
        self._uncounted = 0  # documents that were put since the documents of each language were counted
        self._text_fields: Sequence[str] = ()  # fields of a source that make a document; none: texts are read elsewhere
        self._cache = DocumentCache(index.uuids)

    @property
    def index(self) -> str:
        """Name of the index that is written and searched."""
        return self._index.name

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        view = copy.copy(self)
        client = self._index.client
        if authorization:
            client = client.options(headers={"authorization": authorization})
            view._cache = DocumentCache(frozenset)  # noqa: SLF001 - of a user from whom the server may hide fields
        view._index = replace(self._index, client=client)  # noqa: SLF001 - a copy of this store
        view._layout = replace(self._layout, also=(*self._layout.also, *clauses))  # noqa: SLF001
        return view

    def create(self, model: str, dim: int) -> None:
        """Add the field of a model's vectors to the mapping."""
        self._index.retry_while_away(lambda: self._create(model, dim))

    def _create(self, model: str, dim: int) -> None:
        self._mapped.create(model, dim)

    def models(self) -> Mapping[str, int]:
        return {model: fields.dim for model, fields in self._mapped.read().items()}

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        admission = admit(documents, self._mapped.of(model).dim, also=self._unfit)
        langs = {item.document.lang for item in admission.latest.values()}
        self._index.retry_while_away(lambda: self._mapped.make_room(langs))
        outcome = self._index.write(admission.latest, partial(self._actions, model, admission))
        self._uncounted += len(outcome.done)
        if self._uncounted > _COUNTED_AFTER:
            self._index.retry_while_away(self._give_graphs)
        return admission.report(len(outcome.done), outcome.refused)

    def _give_graphs(self) -> None:
        self._mapped.give_graphs(self.count())
        self._uncounted = 0

    def _unfit(self, item: StoredDocument) -> str | None:
        """Why the server can't store a document; None if it can."""
        try:
            size = len(item.document.doc_id.encode())
            item.document.content.encode()
        except UnicodeEncodeError:
            return "it is not Unicode text"
        return f"its id has {size} bytes, and Elasticsearch takes {_MAX_ID_BYTES}" if size > _MAX_ID_BYTES else None

    def _actions(self, model: str, admission: Admission, doc_ids: Sequence[str]) -> dict[str, Action]:
        """The writes of documents, by id; the documents that are older than the stored ones are noted."""
        stored = self._index.read(doc_ids, self._layout.stamp_fields("*"))
        newer = {
            doc_id
            for doc_id, document in stored.items()
            if (stamp := self._layout.stamp(document.source))
            and stamp.revision > admission.latest[doc_id].document.revision
        }
        admission.older |= newer
        items = [admission.latest[doc_id] for doc_id in doc_ids if doc_id not in newer]
        other_models = self._other_models(model, items, stored)
        actions: dict[str, Action] = {}
        for item in items:
            doc_id = item.document.doc_id
            source = self._layout.source(model, item, self._mapped.of(model))
            source[self._layout.ours]["models"] |= other_models.get(doc_id, {})
            kind = {"_op_type": "index", **stored[doc_id].unchanged} if doc_id in stored else {"_op_type": "create"}
            actions[doc_id] = {"_index": self.index, "_id": doc_id, "_source": source, **kind}
        return actions

    def _other_models(
        self, model: str, items: Sequence[StoredDocument], stored: Mapping[str, ServerDocument]
    ) -> dict[str, Mapping[str, Any]]:
        """Other models' vectors of the same texts, by document id: they are written again with the document."""
        same_text = {
            item.document.doc_id: item.document.lang
            for item in items
            if (previous := stored.get(item.document.doc_id))
            and (stamp := self._layout.stamp(previous.source))
            and stamp.text_hash == item.document.text_hash
            and self._layout.models_of(previous.source) - {model}
        }
        if not same_text:
            return {}
        models = self._layout.name("models")
        whole = self._index.read_with_vectors(list(same_text), self._layout.abilities, models)
        return {
            doc_id: {
                name: {part: encoded[part] for part in encoded.keys() - {"vector", "vectors"}}
                | placed(vector, same_text[doc_id], self._mapped.of(name))
                for name, encoded in document.source[self._layout.ours]["models"].items()
                if name != model and (vector := sent_vector_of(encoded)) is not None
            }
            for doc_id, document in whole.items()
        }

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        stored: dict[str, ServerDocument] = {}
        for page in pages(doc_ids):
            stored |= self._index.retry_while_away(partial(self._index.read, page, self._layout.stamp_fields(model)))
        return {
            doc_id: stamp
            for doc_id, document in stored.items()
            if model in self._layout.models_of(document.source) and (stamp := self._layout.stamp(document.source))
        }

    def search(self, query: VectorQuery) -> dict[str, list[NearestDocuments]]:
        """Approximate nearest documents in each target language, with exact cosines."""
        self._index.refresh()
        return self._candidates(query, self._index.search(self.bodies(query)))

    def lexical(self, query: LexicalQuery) -> list[LexicalHits]:
        """The server's BM25 over the terms that Dragoman indexed, all languages in one request."""
        self._index.refresh()
        bodies = self._lexical_bodies(query, query.langs)
        return lexical_hits(query, bodies, iter(self._index.search(filter(None, bodies))))

    def search_with_words(
        self, query: VectorQuery, lexical: LexicalQuery
    ) -> tuple[dict[str, list[NearestDocuments]], list[LexicalHits]]:
        self._index.refresh()
        if query.filters == lexical.filters:  # a range is listed once
            listed = self._listed(query.filters)
            query, lexical = replace(query, filters=listed), replace(lexical, filters=listed)
        vector_bodies, word_bodies = self.bodies(query), self._lexical_bodies(lexical, query.vectors)
        answers = self._index.search([*vector_bodies, *filter(None, word_bodies)])
        of_vectors, of_words = answers[: len(vector_bodies)], answers[len(vector_bodies) :]
        return self._candidates(query, of_vectors), lexical_hits(lexical, word_bodies, iter(of_words))

    def _lexical_bodies(self, query: LexicalQuery, langs: Iterable[str]) -> list[dict[str, Any] | None]:
        fields = [self._mapped.of(model, langs) for model in query.models]
        return lexical_bodies(self._layout, fields, replace(query, filters=self._listed(query.filters)))

    def bodies(self, query: VectorQuery) -> list[dict[str, Any]]:
        """The bodies of the searches that are sent for a query."""
        listed = replace(query, filters=self._listed(query.filters))
        bring_vectors = query.with_vectors and not self._cache.last_search.mostly_cached
        return knn_bodies(
            self._layout, self._mapped.of(query.model, query.vectors), listed, bring_vectors=bring_vectors
        )

    def _listed(self, filters: Filters | None) -> Filters | None:
        """Filters in which a range over a field of texts is the list of its values that lie within the range."""
        ranges = {name: bounds for name, bounds in (filters or {}).items() if isinstance(bounds, Mapping)}
        if not ranges or not self._layout.texts_alone:
            return filters
        aggs = {
            str(number): {"terms": {"field": self._layout.filter_field(name), "size": _MAX_VALUES}}
            for number, name in enumerate(ranges)
        }
        with self._index.store_errors():
            answer = self._index.client.search(index=self.index, size=0, aggs=aggs, allow_partial_search_results=False)
        listed = dict(filters or {})
        for number, (name, bounds) in enumerate(ranges.items()):
            found = answer["aggregations"][str(number)]
            if found["sum_other_doc_count"]:
                raise BadInput(f"{name!r} has over {_MAX_VALUES:,} values, too many for a range on Elasticsearch")
            listed[name] = [bucket["key"] for bucket in found["buckets"] if within(bucket["key"], bounds)]
        return listed

    def _candidates(self, query: VectorQuery, answers: Sequence[Hits]) -> dict[str, list[NearestDocuments]]:
        nearest = candidates(query, iter(answers))
        self._cache.forget_candidates()
        if not query.with_vectors:
            return nearest
        model, hits = query.model, list(itertools.chain(*answers))
        in_hits = hits and self._layout.hit_vector(model, hits[0])
        vectors = self._cache.vectors(
            model, hits, lambda ids: self._hit_vectors(model, hits) if in_hits else self._vectors(model, ids)
        )
        gone = {hit["_id"] for hit in hits} - vectors.keys()

        def with_vectors(of_query: NearestDocuments) -> NearestDocuments:
            there = of_query.without(gone)
            return replace(there, vectors=self._matrix(model, [vectors[doc_id] for doc_id in there.doc_ids]))

        return {lang: list(map(with_vectors, by_query)) for lang, by_query in nearest.items()}

    def _matrix(self, model: str, vectors: Iterable[bytes]) -> FloatArray:
        return np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(-1, self._mapped.of(model).dim)

    def _hit_vectors(self, model: str, hits: Hits) -> dict[str, tuple[Write, bytes]]:
        rows = self._layout.hit_vectors(model, hits, self._mapped.of(model).dim)
        return {hit["_id"]: (last_write(hit), row.tobytes()) for hit, row in zip(hits, rows, strict=True)}

    def _vectors(self, model: str, doc_ids: Sequence[str]) -> dict[str, tuple[Write, bytes]]:
        columns, holds = self._layout.bare([self._layout.vector_column(model)]), partial(self._layout.hit_vector, model)
        pages_of_hits = hits_by_id(self._index, doc_ids, columns, holds)
        return self._hit_vectors(model, list(itertools.chain.from_iterable(pages_of_hits)))

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        stored = self._vectors(model, doc_ids).items()
        rows = in_order({doc_id: self._matrix(model, [vector])[0] for doc_id, (_, vector) in stored}, doc_ids)
        return np.stack(rows) if rows else self._matrix(model, ())

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        self._cache.forget_candidates()
        return self.passages_and_texts(model, doc_ids, ())[0]

    def passages_and_texts(
        self, model: str, doc_ids: Sequence[str], texts_of: Collection[str]
    ) -> tuple[list[Passages], dict[str, Document]]:
        layout, dim = self._layout, self._mapped.of(model).dim
        known, fields = layout.known(model), self._text_fields
        columns = layout.bare([known, *layout.passages(model)])
        cached = self._cache.candidates(model, doc_ids)
        passages = {doc_id: document.passages for doc_id, document in cached.items() if document.passages is not None}
        texts = {doc_id: document.content for doc_id, document in cached.items() if document.content is not None}
        unread = set(texts_of) - texts.keys() if fields else set[str]()
        asked = [doc_id for doc_id in doc_ids if doc_id not in passages or doc_id in unread]
        if asked and fields:
            ahead = self._cache.to_read_ahead(model)
            asked, unread = [*asked, *ahead], unread.union(ahead)
        hit_pages = hits_by_id(self._index, asked, columns, lambda hit: known in hit.get("fields", {}), unread, fields)
        read = {hit["_id"]: hit for hits in hit_pages for hit in hits}
        passages |= {doc_id: layout.hit_passages(model, hit, dim) for doc_id, hit in read.items()}
        new = self._documents_of({doc_id: hit["_source"] for doc_id, hit in read.items() if "_source" in hit})
        self._cache.add(read, passages, new)
        self._cache.forget_candidates()
        returned = {doc_id: text for doc_id, text in (texts | new).items() if doc_id in texts_of}
        copies = {doc_id: replace(text, fields=dict(text.fields)) for doc_id, text in returned.items()}
        return in_order(passages, doc_ids), copies  # a caller may change their fields

    def _documents_of(self, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Document]:
        """The documents of sources with ``_text_fields``. Raises NotAllowed: the server hides a field."""
        try:
            return {doc_id: self._layout.document(doc_id, source) for doc_id, source in sources.items()}
        except KeyError as error:
            raise NotAllowed(f"{self.address.server} hides {error.args[0]} of {self.index} from this user") from error

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        dim, column = self._mapped.of(model).dim, self._layout.vector_column(model)
        clauses: list[dict[str, Any]] = [{"exists": {"field": column["field"]}}]
        if lang is not None:
            clauses.append({"term": {self._layout.name("lang"): lang}})
        body = {
            "_source": {"excludes": [self._layout.name(field) for field in ("words", "models")]},
            "docvalue_fields": [column, *self._layout.passages(model), self._layout.known(model)],
        }
        for hits in pages_in_order(self._index, self._layout, clauses, body, batch):
            vectors = self._layout.hit_vectors(model, hits, dim)
            yield [self._layout.hit_document(model, hit, row) for hit, row in zip(hits, vectors, strict=True)]

    def sample(self, model: str, lang: str, count: int, *, seed: int = 0) -> list[str]:
        has_vector = {"exists": {"field": self._mapped.of(model, [lang]).of(lang).name}}
        return random_ids(self._index, self._layout, [*self._layout.filters(lang, None), has_vector], count, seed)

    def ids(self) -> Iterator[str]:
        """Every stored id, ordered: the server's ``_id``, for a copied document carries the original's id column."""
        clauses = [{"exists": {"field": self._layout.name("id")}}]
        for hits in pages_in_order(self._index, self._layout, clauses, {"_source": False}, PAGE):
            yield from (hit["_id"] for hit in hits)

    def publish(self) -> None:
        self._index.retry_while_away(self._give_graphs)
        self._index.publish()

    def require_visible(self, model: str) -> None:
        """Check that the user sees the fields to search by: hidden fields find nothing. Raises NotAllowed."""
        fields = self._mapped.of(model)
        names = {field.name for field in (fields.shared, *fields.of_languages.values())}
        lang, vectors = self._layout.name("lang"), self._layout.vectors(model)
        with self._index.store_errors():
            visible = self._index.client.field_caps(index=self.index, fields=[lang, vectors])["fields"]
        if hidden := {lang, *names} - visible.keys():
            raise NotAllowed(f"{self.address.server} hides {min(hidden)} of {self.index} from this user")

    def require_fields(self, names: Iterable[str]) -> None:
        """Raise ``BadInput`` if no document has a field of one of these names, or it can't be filtered by."""
        self._index.refresh()
        for name in names:
            query = {"exists": {"field": self._layout.filter_field(name)}}
            with self._index.store_errors():
                answer = self._index.client.search(
                    index=self.index, size=0, query=query, terminate_after=1, allow_partial_search_results=False
                )
            if not answer["hits"]["total"]["value"]:
                raise missing_field(name, "; see to its name")

    def value_path(self, name: str) -> str:
        """The path in a document's fields of the values that a filter by this field compares with. Raises BadInput."""
        return self._layout.value_path(name)

    def count(self, model: str = "", *, patient: bool = False) -> dict[str, int]:
        if patient:
            return self._index.retry_while_away(partial(self.count, model))
        self._index.refresh()
        query = {"exists": {"field": self._layout.vectors(model)}} if model else {"match_all": {}}
        terms = {"terms": {"field": self._layout.name("lang"), "size": _MAX_LANGUAGES, "order": {"_key": "asc"}}}
        with self._index.store_errors():
            answer = self._index.client.search(
                index=self.index,
                size=0,
                query={"bool": {"filter": [query, *self._layout.also]}},
                aggs={"langs": terms},
                allow_partial_search_results=False,
            )
        return {bucket["key"]: bucket["doc_count"] for bucket in answer["aggregations"]["langs"]["buckets"]}

    def shares_fields(self, model: str) -> bool:
        """Whether the index has an earlier version's layout: one field of vectors for all languages."""
        return self._mapped.shares(model)

    def count_passing(self, langs: Sequence[str], filters: Filters | None = None) -> int:
        self._index.refresh()
        listed = self._listed(filters)
        query = {"bool": {"should": [{"bool": {"filter": self._layout.filters(lang, listed)}} for lang in langs]}}
        with self._index.store_errors():
            answer = self._index.client.search(
                index=self.index, size=0, query=query, track_total_hits=True, allow_partial_search_results=False
            )
        return int(answer["hits"]["total"]["value"])

    def close(self) -> None:
        self._index.client.close()


class ElasticStore(ServerStore):
    """The documents of one collection, in an index that Dragoman owns."""

    _index: OwnIndex

    def __init__(
        self,
        address: Address,
        collection: str,
        credentials: Credentials,
        generation: int = 1,
        *,
        make: bool = True,
        database_id: str = "",
    ) -> None:
        """Connect to the server, and create the index if it is missing; the parameters are those of ``StoreLocation``.

        ``database_id`` is written into the mapping. Raises BadInput: the name is no valid index name, or the index or
        alias belongs to somebody else; StoreError: the server is away or too old, or it is missing without ``make``.
        """
        check_name(collection)
        with cluster_client.opening(address.server, credentials) as (client, abilities):
            index = OwnIndex.of(client, address, Claim(collection, database_id), generation)
            index.open(make=make)
        super().__init__(address, index, replace(index.layout, abilities=abilities))
        self.alias = index.alias  # name that other readers of the server use
        self._text_fields = ["title", "text", "fields", self._layout.name("lang"), self._layout.name("revision")]

    def shown_place(self, doc_id: str) -> tuple[str, str]:
        return self.index, doc_id

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Sources of documents without Dragoman's object, as searches find them; missing documents are left out."""
        stored = self._index.read_pages(doc_ids, ["title", "text", "lang", "fields"], as_searched=True)
        return {doc_id: dict(document.source) for doc_id, document in stored.items()}

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents as of the last refresh, in the ids' order; a document being deleted is still read whole."""
        self._index.refresh()
        stored = self._index.read_pages(doc_ids, self._text_fields, as_searched=True)
        return in_order(self._documents_of({doc_id: document.source for doc_id, document in stored.items()}), doc_ids)

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Delete documents with their vectors and passages, for searches, too; returns how many there were."""
        removed = self._index.delete(doc_ids)
        self._index.refresh()
        return removed

    def drop(self) -> None:
        self._index.drop()
        self.close()
