"""A ``VectorStore`` in its own index on an Elasticsearch server."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from encoders.document import Document, FloatArray, Passages
from encoders.errors import BadInput, ModelMismatch, StoreError
from indexer.elastic import connection, errors
from indexer.elastic.address import Address, Credentials
from indexer.elastic.paging import PAGE, pages
from indexer.stores.admission import admit
from indexer.stores.contract import (
    Candidates,
    LexicalHits,
    LexicalQuery,
    PutReport,
    Stamp,
    StoredDocument,
    VectorQuery,
)
from indexer.stores.elastic import generation_claims, writing
from indexer.stores.elastic.generation_claims import Claim
from indexer.stores.elastic.layout import (
    Layout,
    VectorField,
    packed_vector,
    unpacked_known,
    unpacked_passages,
    unpacked_vectors,
)
from indexer.stores.elastic.writing import Action, ServerDocument
from indexer.text.terms import analyser

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_JSON = {"content-type": "application/json", "accept": "application/json"}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_MAX_ID_BYTES = 512
_SHARDS_WITHIN = "30s"
"""How long the server waits for the shards of a new index."""
_YELLOW_WITHIN = "10s"
_MIN_CANDIDATES = 2_400
"""Minimum candidates that a shard examines for a language. With 200 a search took a few ms less and lost 5 % more of
the exact ten best among 228,206 vectors (docs/decisions/0006)."""
_MIN_RESCORED = 50
"""Minimum candidates that a shard rescores exactly; with fewer, quantisation error decides the top ten."""
_MAX_HITS = 20_000
"""Maximum hits of one request: with vectors, 20,000 × 384 numbers are 40 MB to transfer."""
_MAX_LANGUAGES = 10_000


T = TypeVar("T")

Hits = list[dict[str, Any]]
"""The hits of one search, in the server's format."""


class ElasticStore:
    """The documents of one collection, in an index that Dragoman owns.

    Attributes:
        address: server and prefix.
        credentials: the user that the server sees.
        index: name of the index that is written and read.
        alias: name that other readers of the server use.
    """

    def __init__(
        self,
        address: Address,
        collection: str,
        credentials: Credentials,
        generation: int = 1,
        *,
        make: bool = True,
        owner: str = "",
        attached: str = "",
    ) -> None:
        """Connect to the server, and create the index if it is missing.

        Args:
            address: server and prefix.
            collection: name of the collection.
            credentials: the user that the server sees.
            generation: number of the collection's index to open.
            make: create a missing index; otherwise a missing index is an error.
            owner: id of the database that has the collection; the store opens only an index of this database, and
                writes the id into the index's mapping.
            attached: the users' index that this index is a companion of.

        Raises:
            BadInput: the collection's name is no valid index name, or the index or its alias belongs to somebody else.
            StoreError: the server is away, too old, or refuses; or the index is missing and ``make`` is false.
        """
        check_name(collection)
        self.alias = _alias(address, collection)
        self.index = _index(self.alias, generation)
        self._claim = Claim(collection, owner, attached)
        self._reach(address, Layout(address.field), credentials)
        try:
            connection.check_version(self._client, address.server)
            with self._guarded():
                self._open_index(make=make)
        except BaseException:
            self.close()
            raise

    def _reach(self, address: Address, layout: Layout, credentials: Credentials) -> None:
        """Prepare the client; no request is sent yet."""
        self.address, self.credentials = address, credentials
        self._layout = layout
        self._client = connection.connect(address.server, credentials)
        self._fields: dict[str, VectorField] = {}
        self._word_languages: set[str] = set()
        self._stale = True

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        """A view of the store with another user's rights; it shares the connections and must not be closed."""
        view = copy.copy(self)
        view._layout = replace(self._layout, also=tuple(clauses))  # noqa: SLF001 - a copy of this store
        if authorization:
            view._client = self._client.options(headers={"authorization": authorization})  # noqa: SLF001
        return view

    @property
    def shown_index(self) -> str:
        """Name of the index that the documents are read from."""
        return self.index

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Sources of documents without Dragoman's object; missing documents are left out."""
        fields = ["title", "text", "lang", "fields"]
        with self._guarded():
            stored = writing.read(self._client, self.address.server, self.index, doc_ids, fields)
        return {doc_id: dict(document.source) for doc_id, document in stored.items()}

    def _open_index(self, *, make: bool) -> None:
        """Check that the index exists, is ours, and works; create it if it may be created."""
        description = _describe(self._client, self.index)
        created = description is None and self._create_index(make=make)
        mapping = (description or _describe(self._client, self.index) or {"mappings": {}})["mappings"]
        if not self._claim.holds(mapping, self._layout):
            raise self._claim.refusal(self.address.server, self.index, mapping)
        try:
            self._refuse_red()
        except StoreError:
            if created:
                self._client.indices.delete(index=self.index)
            raise
        if self._claim.is_to_mark(mapping):
            self._client.indices.put_mapping(index=self.index, meta=self._claim.meta(mapping))
        self._stale = self._is_loading()

    def _create_index(self, *, make: bool) -> bool:
        """Create the index; returns false if another process created it first."""
        if not make:
            raise StoreError(self._lost())
        from elasticsearch import BadRequestError  # noqa: PLC0415

        self._refuse_taken_alias()
        settings = {"number_of_shards": self.address.shards, "number_of_replicas": 0, "refresh_interval": "-1"}
        mapping = self._layout.mapping()
        mapping["_meta"] = self._claim.meta(mapping)
        try:
            self._client.indices.create(index=self.index, mappings=mapping, settings=settings, timeout=_SHARDS_WITHIN)
        except BadRequestError as error:
            if "resource_already_exists" not in str(error):
                raise
            return False
        generation_claims.refuse_altered(self._client, self.address.server, self.index, self._layout)
        return True

    def _lost(self) -> str:
        """The message for a missing index."""
        return (
            f"the index {self.index} is gone from {self.address.server}; bring it back, or remove the collection "
            f"(dragoman delete --all -c {self._claim.collection}) and index it again"
        )

    def _refuse_taken_alias(self) -> set[str]:
        """The indices behind the collection's alias; all of them must be ours."""
        return generation_claims.aliased_indices(
            self._client, self.address.server, self.alias, self._claim, self._layout
        )

    def _refuse_red(self) -> None:
        """Wait until the shards of a new index start; refuse an index whose shards have no node."""
        from elasticsearch import AuthorizationException  # noqa: PLC0415

        try:
            health = self._client.options(ignore_status=408).cluster.health(
                index=self.index, wait_for_status="yellow", timeout=_YELLOW_WITHIN
            )
        except AuthorizationException:  # some users may not read the cluster's health; a write will fail instead
            return
        if health["status"] == "red":
            raise StoreError(
                f"shards of {self.index} on {self.address.server} have no node that holds them (red); "
                "see _cluster/allocation/explain there"
            )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        from elasticsearch import NotFoundError  # noqa: PLC0415

        try:
            with connection.guarded(self.address.server):
                yield
        except NotFoundError as error:
            raise errors.IndexGone(self._lost()) from error

    def create(self, model: str, dim: int) -> None:
        """Add the field of a model's vectors to the mapping."""
        self._patiently(lambda: self._create(model, dim))

    def _create(self, model: str, dim: int) -> None:
        known = self.models().get(model)
        if known is not None and known != dim:
            raise ModelMismatch(f"{self.index} holds vectors of model {model} with {known} numbers, not {dim}")
        if known is None:
            self._put_mapping(self._layout.model_properties(model, dim, self.address.vectors))

    def _put_mapping(self, properties: Mapping[str, Any]) -> None:
        with self._guarded():
            self._client.indices.put_mapping(index=self.index, properties=properties)

    def models(self) -> Mapping[str, int]:
        """Width of the vectors, by model id."""
        return {model: field.dim for model, field in self._layout.models(self._properties()).items()}

    def _properties(self) -> Mapping[str, Any]:
        with self._guarded():
            answer = self._client.indices.get_mapping(index=self.index)
        properties: Mapping[str, Any] = answer[self.index]["mappings"].get("properties", {})
        return properties

    def _field(self, model: str) -> VectorField:
        if model not in self._fields:
            self._fields = self._layout.models(self._properties())
        if model not in self._fields:
            raise ModelMismatch(
                f"{self.index} holds no vectors of model {model} (it holds: {', '.join(self._fields) or 'none'}); "
                "search with the encoder it was indexed with, or index again"
            )
        return self._fields[model]

    def put(self, model: str, documents: Sequence[StoredDocument]) -> PutReport:
        """Write documents; each document is written whole or not at all."""
        dim = self._field(model).dim
        admitted = admit(documents, dim, also=_unfit)
        latest = admitted.latest
        langs = {item.document.lang for item in latest.values()}
        self._patiently(lambda: self._make_room(langs))
        outdated: set[str] = set()

        def decide(doc_ids: Sequence[str]) -> dict[str, Action]:
            fields = self._layout.stamp_fields("*")
            stored = writing.read(self._client, self.address.server, self.index, doc_ids, fields)
            newer = {
                doc_id
                for doc_id, document in stored.items()
                if (stamp := self._layout.stamp(document.source)) and stamp.revision > latest[doc_id].document.revision
            }
            outdated.update(newer)
            other_models = self._other_models(
                model, [latest[doc_id] for doc_id in doc_ids if doc_id not in newer], stored
            )
            return {
                doc_id: self._action(model, latest[doc_id], stored.get(doc_id), other_models.get(doc_id, {}))
                for doc_id in doc_ids
                if doc_id not in newer
            }

        outcome = writing.write(self._client, self.address.server, latest, decide)
        self._stale = True
        return PutReport(
            stored=len(outcome.done),
            older=sorted({*admitted.older, *outdated}),
            refused={**admitted.refused, **outcome.refused},
        )

    def _make_room(self, langs: set[str]) -> None:
        missing = langs - self._word_languages
        if missing:
            self._word_languages = self._layout.languages(self._properties())
            if missing - self._word_languages:
                self._put_mapping(self._layout.words_properties(sorted(missing - self._word_languages)))
                self._word_languages |= missing

    def _action(
        self, model: str, item: StoredDocument, stored: ServerDocument | None, other_models: Mapping[str, Any]
    ) -> Action:
        source = self._layout.source(model, item)
        source[self._layout.ours]["models"] |= other_models
        kind: dict[str, Any] = {"_op_type": "create"} if stored is None else {"_op_type": "index", **stored.unchanged}
        return {"_index": self.index, "_id": item.document.doc_id, "_source": source, **kind}

    def _other_models(
        self, model: str, items: Sequence[StoredDocument], stored: Mapping[str, ServerDocument]
    ) -> dict[str, Mapping[str, Any]]:
        """Other models' vectors of the same texts, by document id: they are written again with the document."""
        same_text_ids = [
            item.document.doc_id
            for item in items
            if (previous := stored.get(item.document.doc_id))
            and (stamp := self._layout.stamp(previous.source))
            and stamp.text_hash == item.document.text_hash
            and self._layout.models_of(previous.source) - {model}
        ]
        if not same_text_ids:
            return {}
        field = self._layout.name("models")
        answer = self._client.perform_request(
            "POST",
            f"/{self.index}/_mget",
            params={"_source_exclude_vectors": "false", "_source_includes": field},
            headers=_JSON,
            body={"ids": same_text_ids},
        )
        return {
            document["_id"]: {
                name: encoded
                for name, encoded in document["_source"][self._layout.ours]["models"].items()
                if name != model and "vector" in encoded
            }
            for document in connection.existing_documents(self.address.server, self.index, answer.body["docs"])
        }

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """Stamps of the documents that have a vector of this model, by id."""
        stored: dict[str, ServerDocument] = {}
        for page in pages(doc_ids):
            stored |= self._patiently(partial(self._read, page, self._layout.stamp_fields(model)))
        return {
            doc_id: stamp
            for doc_id, document in stored.items()
            if model in self._layout.models_of(document.source) and (stamp := self._layout.stamp(document.source))
        }

    def search(self, query: VectorQuery) -> dict[str, list[Candidates]]:
        """Approximate nearest documents in each target language, with exact cosines."""
        self._refresh()
        return self._candidates(query, iter(self._msearch(self.bodies(query))))

    def lexical(self, query: LexicalQuery) -> list[LexicalHits]:
        """The server's BM25 over the terms that Dragoman indexed, all languages in one request."""
        self._refresh()
        bodies = self._lexical_bodies(query)
        return _lexical_hits(query, bodies, iter(self._msearch([body for body in bodies if body])))

    def search_with_words(
        self, query: VectorQuery, lexical: LexicalQuery
    ) -> tuple[dict[str, list[Candidates]], list[LexicalHits]]:
        """``search`` and ``lexical`` in one request."""
        self._refresh()
        bodies, lexical_bodies = self.bodies(query), self._lexical_bodies(lexical)
        answers = iter(self._msearch([*bodies, *(body for body in lexical_bodies if body)]))
        return self._candidates(query, answers), _lexical_hits(lexical, lexical_bodies, answers)

    def bodies(self, query: VectorQuery) -> list[dict[str, Any]]:
        """The bodies of the searches of a query, language by language."""
        return [self._knn_body(query, lang, vector) for lang, vectors in query.vectors.items() for vector in vectors]

    def _candidates(self, query: VectorQuery, answers: Iterator[Hits]) -> dict[str, list[Candidates]]:
        dim = self._field(query.model).dim
        candidates: dict[str, list[Candidates]] = {lang: [] for lang in query.vectors}
        for lang, vectors in query.vectors.items():
            for vector in vectors:
                hits = next(answers)
                stored_vectors = self._hit_vectors(query.model, hits, dim) if query.with_vectors else None
                norm = float(np.linalg.norm(vector))
                scores = [(2.0 * hit["_score"] - 1.0) * norm if norm else 0.0 for hit in hits]
                doc_ids = [hit["_id"] for hit in hits]
                candidates[lang].append(Candidates(doc_ids, np.array(scores, dtype=np.float32), stored_vectors))
        return candidates

    def _knn_body(self, query: VectorQuery, lang: str, vector: FloatArray) -> dict[str, Any]:
        """The body of a search for the documents of one language nearest to one vector, (dim,) float32."""
        vector_field = self._field(query.model)
        field, clauses = self._layout.vector(query.model), self._layout.filters(lang, query.filters)
        if query.lacking:
            clauses.append({"bool": {"must_not": [{"exists": {"field": self._layout.vector(query.lacking)}}]}})
        columns = [{"field": field, "format": "binary"}] if query.with_vectors else []
        body: dict[str, Any] = {"size": query.k, "track_total_hits": False, **self._bare(columns)}
        norm = np.linalg.norm(vector)
        if norm == 0:  # a zero query is equally near to every document
            return {**body, "query": {"bool": {"filter": [*clauses, {"exists": {"field": field}}]}}}
        body["knn"] = {
            "field": field,
            "query_vector": packed_vector((vector / norm).astype(np.float32)),
            "k": max(query.k, _MIN_RESCORED),
            "num_candidates": min(max(2 * query.k, _MIN_CANDIDATES), 10_000),
            "filter": clauses,
        }
        if not vector_field.kind.startswith("bbq"):  # bbq indices oversample and rescore by default
            body["knn"]["rescore_vector"] = {"oversample": 1.0}
        return body

    def _bare(self, columns: Sequence[Any] = ()) -> dict[str, Any]:
        """Parts of a search body that return only these columns and the id, without sources.

        The server keeps ``_id`` in the compressed blocks of the sources, and reading it for each hit takes more than
        half of a search's time. The same id is therefore a column, too.
        """
        return {"stored_fields": "_none_", "docvalue_fields": [self._layout.name("id"), *columns]}

    def _msearch(self, bodies: Sequence[Mapping[str, Any]]) -> list[Hits]:
        """The hits of several searches, in requests of at most ``_MAX_HITS`` hits."""
        answers: list[Hits] = []
        batch: list[Mapping[str, Any]] = []
        for body in bodies:
            if batch and sum(queued["size"] for queued in batch) + body["size"] > _MAX_HITS:
                answers += self._msearch_at_once(batch)
                batch = []
            batch.append(body)
        return [*answers, *(self._msearch_at_once(batch) if batch else ())]

    def _msearch_at_once(self, bodies: Sequence[Mapping[str, Any]]) -> list[Hits]:
        header = {"index": self.index, "allow_partial_search_results": False}
        searches = [part for body in bodies for part in (header, body)]
        with self._guarded():
            answer = self._client.msearch(searches=searches)
        failed = next((response for response in answer["responses"] if "error" in response), None)
        if failed is not None:
            status = int(failed.get("status", 500))
            raise errors.SearchRefused(self.address.server, status, errors.reason(failed))
        return [[self._with_id(hit) for hit in response["hits"]["hits"]] for response in answer["responses"]]

    def _with_id(self, hit: dict[str, Any]) -> dict[str, Any]:
        """A hit with ``_id``, taken from the id column if the hit has none."""
        return hit if "_id" in hit else {**hit, "_id": hit["fields"][self._layout.name("id")][0]}

    def _refresh(self) -> None:
        """Refresh the index if this store wrote to it, or while it is filled for the first time."""
        if self._stale:
            with self._guarded():
                self._client.indices.refresh(index=self.index)
            self._stale = False

    def _refresh_foreign_writes(self) -> bool:
        """Show searches other processes' writes; without the right to refresh, searches see them a second later."""
        from elasticsearch import AuthorizationException  # noqa: PLC0415

        with self._guarded(), suppress(AuthorizationException):
            self._client.indices.refresh(index=self.index)
        return True

    def _lexical_bodies(self, query: LexicalQuery) -> list[dict[str, Any] | None]:
        """The body of a search for each text and language; None if the text has no terms in the language."""
        return [self._lexical_body(query, text, lang) for text in query.texts for lang in query.langs]

    def _lexical_body(self, query: LexicalQuery, text: str, lang: str) -> dict[str, Any] | None:
        """The body of a search for documents of one language that share terms with a text; None without terms."""
        field = self._layout.words(lang)
        terms = analyser(lang).query_terms(text)
        term_clauses = [
            {"prefix": {field: {"value": term[:-1]}}} if term.endswith("*") else {"term": {field: {"value": term}}}
            for term in terms
        ]
        if not term_clauses:
            return None
        clauses = self._layout.filters(lang, query.filters)
        if query.models:
            has_vector = [{"exists": {"field": self._layout.vector(model)}} for model in query.models]
            clauses.append({"bool": {"should": has_vector}})
        return {
            "size": query.k,
            "track_total_hits": False,
            **self._bare(),
            "query": {"bool": {"should": term_clauses, "minimum_should_match": 1, "filter": clauses}},
            "sort": ["_score", {self._layout.name("id"): "asc"}],
        }

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        """Stored vectors, (ids, dim) float32."""
        dim = self._field(model).dim
        vector_by_id: dict[str, FloatArray] = {}
        field = self._layout.vector(model)
        for hits in self._by_ids(doc_ids, [{"field": field, "format": "binary"}], field):
            vector_by_id |= dict(zip((hit["_id"] for hit in hits), self._hit_vectors(model, hits, dim), strict=True))
        rows = [vector_by_id[doc_id] for doc_id in doc_ids]
        return np.stack(rows) if rows else np.empty((0, dim), dtype=np.float32)

    def _hit_vectors(self, model: str, hits: Sequence[Mapping[str, Any]], dim: int) -> FloatArray:
        field = self._layout.vector(model)
        return unpacked_vectors([hit["fields"][field][0] for hit in hits], dim)

    def _by_ids(self, doc_ids: Sequence[str], fields: Sequence[Any], needed: str) -> Iterator[list[dict[str, Any]]]:
        """Hits with doc values for a list of ids, a page at a time; hits that lack the needed field are left out.

        If a hit is missing, the index is refreshed once: a stamp shows another process's write before a search does.
        """
        self._refresh()
        refreshed = False
        for page in pages(list(dict.fromkeys(doc_ids))):
            hits = self._hits_with_field(page, fields, needed)
            yield hits
            missing = sorted(set(page) - {hit["_id"] for hit in hits})
            if missing:
                refreshed = refreshed or self._refresh_foreign_writes()
                yield self._hits_with_field(missing, fields, needed)

    def _hits_with_field(self, doc_ids: Sequence[str], fields: Sequence[Any], needed: str) -> list[dict[str, Any]]:
        query = {"ids": {"values": doc_ids}}
        body = {"size": len(doc_ids), "track_total_hits": False, "query": query, **self._bare(fields)}
        return [hit for hit in self._msearch([body])[0] if needed in hit.get("fields", {})]

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        """Stored passages, one for each id."""
        dim = self._field(model).dim
        passages_by_id: dict[str, Passages] = {}
        known = self._layout.known(model)
        for hits in self._by_ids(doc_ids, [*self._layout.passages(model), known], known):
            passages_by_id |= {hit["_id"]: self._hit_passages(model, hit, dim) for hit in hits}
        return [passages_by_id[doc_id] for doc_id in doc_ids]

    def _hit_passages(self, model: str, hit: Mapping[str, Any], dim: int) -> Passages:
        vectors, offsets = (hit["fields"].get(field, [""])[0] for field in self._layout.passages(model))
        return unpacked_passages(vectors, offsets, dim)

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents in the order of the ids."""
        stored: dict[str, ServerDocument] = {}
        fields = ["title", "text", "fields", *(self._layout.name(field) for field in ("lang", "revision"))]
        with self._guarded():
            for page in pages(list(dict.fromkeys(doc_ids))):
                stored |= writing.read(self._client, self.address.server, self.index, page, fields)
        return [self._layout.document(doc_id, stored[doc_id].source) for doc_id in doc_ids]

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """Everything stored, in batches, ordered by id."""
        dim = self._field(model).dim
        vector = self._layout.vector(model)
        clauses: list[dict[str, Any]] = [{"exists": {"field": vector}}]
        if lang is not None:
            clauses.append({"term": {self._layout.name("lang"): lang}})
        body = {
            "_source": {"excludes": [self._layout.name(field) for field in ("words", "models")]},
            "docvalue_fields": [
                {"field": vector, "format": "binary"},
                *self._layout.passages(model),
                self._layout.known(model),
            ],
        }
        for hits in self._pages_by_id(clauses, body, batch):
            vectors = self._hit_vectors(model, hits, dim)
            yield [self._restored(model, hit, row) for hit, row in zip(hits, vectors, strict=True)]

    def _restored(self, model: str, hit: Mapping[str, Any], vector: FloatArray) -> StoredDocument:
        return StoredDocument(
            self._layout.document(hit["_id"], hit["_source"]),
            vector,
            self._hit_passages(model, hit, len(vector)),
            unpacked_known(hit["fields"][self._layout.known(model)][0]),
        )

    def _pages_by_id(
        self, clauses: Sequence[Mapping[str, Any]], body: Mapping[str, Any], batch: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Hits ordered by id, one search a page: the server keeps no state that a restart could lose."""
        self._refresh()
        paged = {
            **body,
            "size": batch,
            "query": {"bool": {"filter": list(clauses)}},
            "sort": [{self._layout.name("id"): "asc"}],
            "track_total_hits": False,
        }
        while True:
            (hits,) = self._msearch([paged])
            if not hits:
                return
            yield hits
            paged["search_after"] = hits[-1]["sort"]

    def sample(self, model: str, lang: str, count: int, *, seed: int = 0) -> list[str]:
        """Ids of documents of a language, drawn at random."""
        self._refresh()
        clauses = [*self._layout.filters(lang, None), {"exists": {"field": self._layout.vector(model)}}]
        random_order = {"query": {"bool": {"filter": clauses}}, "random_score": {"seed": seed, "field": "_seq_no"}}
        body: dict[str, Any] = {
            **self._bare(),
            "query": {"function_score": {**random_order, "boost_mode": "replace"}},
            "sort": ["_score", {self._layout.name("id"): "asc"}],
            "track_total_hits": False,
        }
        doc_ids: list[str] = []
        while len(doc_ids) < count:
            (hits,) = self._msearch([{**body, "size": min(PAGE, count - len(doc_ids))}])
            if not hits:
                break
            doc_ids += [hit["_id"] for hit in hits]
            body["search_after"] = hits[-1]["sort"]
        return doc_ids

    def ids(self) -> Iterator[str]:
        """Every stored id, ordered: the server's ``_id``, for a copied document carries the original's id column."""
        clauses = [{"exists": {"field": self._layout.name("id")}}]
        for hits in self._pages_by_id(clauses, {"_source": False}, PAGE):
            yield from (hit["_id"] for hit in hits)

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Delete documents with their vectors and passages; returns how many there were."""

        def decide(page_ids: Sequence[str]) -> dict[str, Action]:
            return {doc_id: {"_op_type": "delete", "_index": self.index, "_id": doc_id} for doc_id in page_ids}

        removed = 0
        remaining = iter(dict.fromkeys(doc_ids))
        while page := list(islice(remaining, PAGE)):
            removed += len(writing.write(self._client, self.address.server, page, decide).done)
            self._stale = True
        return removed

    def _read(self, doc_ids: Sequence[str], fields: Sequence[str]) -> dict[str, ServerDocument]:
        return writing.read(self._client, self.address.server, self.index, doc_ids, fields)

    def _patiently(self, act: Callable[[], T]) -> T:
        """Call ``act``, and call it again while the server restarts: an index run must outlast a restart."""
        with self._guarded():
            return writing.patiently(self.address.server, act)

    def publish(self) -> None:
        """Give the index its replicas and refreshes, and move the alias to it in one step."""
        self._patiently(self._publish)

    def _publish(self) -> None:
        aliased = self._refuse_taken_alias()
        self._end_loading()
        if aliased != {self.index}:
            actions = [{"remove": {"index": index, "alias": self.alias}} for index in sorted(aliased - {self.index})]
            self._client.indices.update_aliases(actions=[*actions, {"add": {"index": self.index, "alias": self.alias}}])

    def _end_loading(self) -> None:
        """Give the index its replicas and refreshes, if it lacks them, and refresh it."""
        if self._is_loading():
            replicas = self.address.replicas if self.address.replicas >= 0 else None
            settings = {"number_of_replicas": replicas, "refresh_interval": None}
            self._client.indices.put_settings(index=self.index, settings=settings)
        self._client.indices.refresh(index=self.index)
        self._stale = False

    def _is_loading(self) -> bool:
        """Whether the index is filled for the first time: then only readers through this store refresh it."""
        settings = self._client.indices.get_settings(index=self.index)[self.index]["settings"]
        return bool(settings["index"].get("refresh_interval") == "-1")

    def drop(self) -> None:
        """Remove the index."""
        with connection.guarded(self.address.server):
            _drop(self._client, self.index, self._claim, self._layout)
        self._fields, self._word_languages = {}, set()
        self.close()

    def count(self, model: str = "") -> dict[str, int]:
        """Number of documents by language; if a model is named, of documents with a vector of that model."""
        self._refresh()
        query = {"exists": {"field": self._layout.vector(model)}} if model else {"match_all": {}}
        terms = {"terms": {"field": self._layout.name("lang"), "size": _MAX_LANGUAGES, "order": {"_key": "asc"}}}
        with self._guarded():
            answer = self._client.search(
                index=self.index, size=0, query=query, aggs={"langs": terms}, allow_partial_search_results=False
            )
        return {bucket["key"]: bucket["doc_count"] for bucket in answer["aggregations"]["langs"]["buckets"]}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def check_name(collection: str) -> None:
    """Check that a collection's name can be part of an index name.

    Raises:
        BadInput: it can't.
    """
    if not _NAME.fullmatch(collection):
        raise BadInput(
            f"a collection can't be named {collection!r} on Elasticsearch; "
            "take at most 100 small letters, digits, '.', '-' and '_'"
        )


def drop(address: Address, claim: Claim, credentials: Credentials, generation: int = 1) -> None:
    """Remove a generation's index, even if it can't be opened any more; an index that is not ours stays.

    Raises:
        StoreError: the server is away or refuses.
    """
    index = _index(_alias(address, claim.collection), generation)
    with connection.guarded(address.server), connection.connect(address.server, credentials) as client:
        _drop(client, index, claim, Layout(address.field))


def _drop(client: Elasticsearch, index: str, claim: Claim, layout: Layout) -> None:
    description = _describe(client, index)
    if description and claim.holds(description["mappings"], layout):
        client.indices.delete(index=index, ignore_unavailable=True)


def _describe(client: Elasticsearch, index: str) -> Mapping[str, Any] | None:
    """An index with its ``mappings``; None if it is missing. An alias gets empty mappings, so it is not ours."""
    answer = client.options(ignore_status=404).indices.get(index=index, features=["mappings"]).body
    return None if "error" in answer else answer.get(index, {"mappings": {}})


def generations(address: Address, claim: Claim, credentials: Credentials) -> list[int]:
    """Numbers of the generations that have an index of ours.

    Raises:
        StoreError: the server is away or refuses.
    """
    alias, layout = _alias(address, claim.collection), Layout(address.field)
    with connection.guarded(address.server), connection.connect(address.server, credentials) as client:
        indices = client.indices.get(index=f"{alias}-*", features=["mappings"], expand_wildcards="all").body
    numbered = ((re.fullmatch(rf"{re.escape(alias)}-(\d{{6}})", name), index) for name, index in indices.items())
    return sorted(int(number[1]) for number, index in numbered if number and claim.holds(index["mappings"], layout))


def _alias(address: Address, collection: str) -> str:
    return f"{address.prefix}-{collection}"


def _index(alias: str, generation: int) -> str:
    return f"{alias}-{generation:06d}"


def _lexical_hits(query: LexicalQuery, bodies: Iterable[object | None], answers: Iterator[Hits]) -> list[LexicalHits]:
    """Ids with BM25 scores for each text and language; none where there was no body of a search."""
    scored = ([(hit["_id"], float(hit["_score"])) for hit in next(answers)] if body else [] for body in bodies)
    return [{lang: next(scored) for lang in query.langs} for _ in query.texts]


def _unfit(item: StoredDocument) -> str | None:
    try:
        size = len(item.document.doc_id.encode())
        f"{item.document.content}{item.document.fields}".encode()
    except UnicodeEncodeError:
        return "it is not Unicode text"
    return f"its id has {size} bytes, and Elasticsearch takes {_MAX_ID_BYTES}" if size > _MAX_ID_BYTES else None
