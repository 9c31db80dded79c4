"""A ``VectorStore`` on an Elasticsearch server, in an index of its own."""

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
    Filters,
    LexicalQuery,
    PutReport,
    Stamp,
    StoredDocument,
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
_ID_BYTES = 512
_SHARDS_WITHIN = "30s"
"""How long the server waits for the shards of a new index."""
_YELLOW_WITHIN = "10s"
_FEWEST = 2_400
"""Candidates a shard looks at for a language, at least: 200 cost a search some ms less, and lost 5 % more of the exact
ten best among 228,206 vectors (docs/decisions/0006)."""
_NEAREST = 50
"""Of them those whose cosines a shard computes, at least: of fewer the quantised order would choose the ten best."""
_HITS = 20_000
"""Hits with vectors asked for in one request: 20,000 × 384 are 40 MB on the way."""
_LANGUAGES = 10_000


T = TypeVar("T")

Hits = list[dict[str, Any]]
"""Of one search, as the server gives them."""


class ElasticStore:
    """Documents of one collection in an index of ours.

    Attributes:
        address: server and prefix.
        credentials: who asks it.
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
        """Reach the server, and make the index where there is none.

        Args:
            address: server and prefix.
            collection: its name.
            credentials: who asks.
            generation: which of its indices.
            make: make it where there is none.
            owner: id of the database that has the collection; only its own index is opened, and marked so.
            attached: the index that this one is a companion of.

        Raises:
            BadInput: the collection's name can't be an index's, or the index, or its alias, is somebody else's.
            StoreError: the server is away, too old, or refuses; or the index is not there and must be.
        """
        check_name(collection)
        self.alias = _alias(address, collection)
        self.index = _index(self.alias, generation)
        self._claim = Claim(collection, owner, attached)
        self._reach(address, Layout(address.field), credentials)
        try:
            connection.check_version(self._client, address.server)
            with self._guarded():
                self._enter(make=make)
        except BaseException:
            self.close()
            raise

    def _reach(self, address: Address, layout: Layout, credentials: Credentials) -> None:
        """Be ready to ask the server; nothing is asked yet."""
        self.address, self.credentials = address, credentials
        self._layout = layout
        self._client = connection.connect(address.server, credentials)
        self._fields: dict[str, VectorField] = {}
        self._worded: set[str] = set()
        self._stale = True

    def narrowed(self, clauses: Sequence[Mapping[str, Any]], authorization: str = "") -> Self:
        """The same documents as somebody else may see them; the connections are shared, and not to be closed."""
        other = copy.copy(self)
        other._layout = replace(self._layout, also=tuple(clauses))  # noqa: SLF001 - a copy of this one
        if authorization:
            other._client = self._client.options(headers={"authorization": authorization})  # noqa: SLF001
        return other

    @property
    def shown_index(self) -> str:
        """Name of the index that the documents are read from."""
        return self.index

    def originals(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Sources of documents as other readers find them, without what is ours; those that are gone are left out."""
        fields = ["title", "text", "lang", "fields"]
        with self._guarded():
            held = writing.read(self._client, self.address.server, self.index, doc_ids, fields)
        return {doc_id: dict(one.source) for doc_id, one in held.items()}

    def _enter(self, *, make: bool) -> None:
        """See that the index is there, is ours, and works."""
        found = _described(self._client, self.index)
        made = found is None and self._make(make=make)
        mapping = (found or _described(self._client, self.index) or {"mappings": {}})["mappings"]
        if not self._claim.holds(mapping, self._layout):
            raise self._claim.refusal(self.address.server, self.index, mapping)
        try:
            self._refuse_red()
        except StoreError:
            if made:
                self._client.indices.delete(index=self.index)
            raise
        if self._claim.is_to_mark(mapping):
            self._client.indices.put_mapping(index=self.index, meta=self._claim.meta(mapping))
        self._stale = self._is_loading()

    def _make(self, *, make: bool) -> bool:
        """Make the index; whether another process was not faster."""
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
        """What to say where the index is gone."""
        return (
            f"the index {self.index} is gone from {self.address.server}; bring it back, or remove the collection "
            f"(dragoman delete --all -c {self._claim.collection}) and index it again"
        )

    def _refuse_taken_alias(self) -> set[str]:
        """The indices behind the collection's alias, which must be ours all."""
        return generation_claims.behind(self._client, self.address.server, self.alias, self._claim, self._layout)

    def _refuse_red(self) -> None:
        """Shards of a new index take a moment; those that have no node never come."""
        from elasticsearch import AuthorizationException  # noqa: PLC0415

        try:
            health = self._client.options(ignore_status=408).cluster.health(
                index=self.index, wait_for_status="yellow", timeout=_YELLOW_WITHIN
            )
        except AuthorizationException:  # not everybody may ask; a write will tell
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
        """Make room for a model's vectors."""
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
        """Write documents, each whole or not at all."""
        dim = self._field(model).dim
        admitted = admit(documents, dim, also=_unfit)
        latest = admitted.latest
        langs = {item.document.lang for item in latest.values()}
        self._patiently(lambda: self._make_room(langs))
        kept: set[str] = set()

        def decide(doc_ids: Sequence[str]) -> dict[str, Action]:
            held = writing.read(self._client, self.address.server, self.index, doc_ids, self._layout.stamp_fields("*"))
            newer = {
                doc_id
                for doc_id, one in held.items()
                if (stamp := self._layout.stamp(one.source)) and stamp.revision > latest[doc_id].document.revision
            }
            kept.update(newer)
            beside = self._beside(model, [latest[doc_id] for doc_id in doc_ids if doc_id not in newer], held)
            return {
                doc_id: self._action(model, latest[doc_id], held.get(doc_id), beside.get(doc_id, {}))
                for doc_id in doc_ids
                if doc_id not in newer
            }

        outcome = writing.write(self._client, self.address.server, latest, decide)
        self._stale = True
        return PutReport(
            stored=len(outcome.done),
            older=sorted({*admitted.older, *kept}),
            refused={**admitted.refused, **outcome.refused},
        )

    def _make_room(self, langs: set[str]) -> None:
        missing = langs - self._worded
        if missing:
            self._worded = self._layout.languages(self._properties())
            if missing - self._worded:
                self._put_mapping(self._layout.words_properties(sorted(missing - self._worded)))
                self._worded |= missing

    def _action(
        self, model: str, item: StoredDocument, held: ServerDocument | None, beside: Mapping[str, Any]
    ) -> Action:
        source = self._layout.source(model, item)
        source[self._layout.ours]["models"] |= beside
        how: dict[str, Any] = {"_op_type": "create"} if held is None else {"_op_type": "index", **held.unchanged}
        return {"_index": self.index, "_id": item.document.doc_id, "_source": source, **how}

    def _beside(
        self, model: str, items: Sequence[StoredDocument], held: Mapping[str, ServerDocument]
    ) -> dict[str, Mapping[str, Any]]:
        """What other models made of the same texts: it is written again with the document."""
        same = [
            item.document.doc_id
            for item in items
            if (one := held.get(item.document.doc_id))
            and (stamp := self._layout.stamp(one.source))
            and stamp.text_hash == item.document.text_hash
            and self._layout.models_of(one.source) - {model}
        ]
        if not same:
            return {}
        field = self._layout.name("models")
        answer = self._client.perform_request(
            "POST",
            f"/{self.index}/_mget",
            params={"_source_exclude_vectors": "false", "_source_includes": field},
            headers=_JSON,
            body={"ids": same},
        )
        return {
            one["_id"]: {
                name: made
                for name, made in one["_source"][self._layout.ours]["models"].items()
                if name != model and "vector" in made
            }
            for one in connection.found(self.address.server, self.index, answer.body["docs"])
        }

    def stamps(self, model: str, doc_ids: Sequence[str]) -> dict[str, Stamp]:
        """What is stored with a vector of this model."""
        found: dict[str, ServerDocument] = {}
        for page in pages(doc_ids):
            found |= self._patiently(partial(self._read, page, self._layout.stamp_fields(model)))
        return {
            doc_id: stamp
            for doc_id, one in found.items()
            if model in self._layout.models_of(one.source) and (stamp := self._layout.stamp(one.source))
        }

    def search(
        self,
        model: str,
        queries: Mapping[str, FloatArray],
        k: int,
        *,
        filters: Filters | None = None,
        with_vectors: bool = False,
        lacking: str = "",
    ) -> dict[str, list[Candidates]]:
        """Approximate nearest documents in each target language, their cosines exact."""
        self._refresh()
        near = self._near(model, queries, k, filters=filters, with_vectors=with_vectors, lacking=lacking)
        return self._candidates(model, queries, iter(self._msearch(near)), with_vectors=with_vectors)

    def search_with_words(
        self,
        model: str,
        queries: Mapping[str, FloatArray],
        k: int,
        wording: LexicalQuery,
        *,
        filters: Filters | None = None,
        lacking: str = "",
    ) -> tuple[dict[str, list[Candidates]], list[dict[str, list[tuple[str, float]]]]]:
        """Both in one request."""
        self._refresh()
        near = self._near(model, queries, k, filters=filters, with_vectors=False, lacking=lacking)
        worded = [
            self._worded_bodies(text, wording.langs, wording.k, filters, wording.models) for text in wording.texts
        ]
        answers = iter(self._msearch([*near, *(body for bodies in worded for body in bodies.values())]))
        candidates = self._candidates(model, queries, answers, with_vectors=False)
        return candidates, [_by_words(wording.langs, bodies, answers) for bodies in worded]

    def _near(
        self,
        model: str,
        queries: Mapping[str, FloatArray],
        k: int,
        *,
        filters: Filters | None,
        with_vectors: bool,
        lacking: str,
    ) -> list[dict[str, Any]]:
        return [
            self.request(model, lang, query, k, filters=filters, with_vectors=with_vectors, lacking=lacking)
            for lang, rows in queries.items()
            for query in rows
        ]

    def _candidates(
        self, model: str, queries: Mapping[str, FloatArray], answers: Iterator[Hits], *, with_vectors: bool
    ) -> dict[str, list[Candidates]]:
        dim = self._field(model).dim
        found: dict[str, list[Candidates]] = {lang: [] for lang in queries}
        for lang, rows in queries.items():
            for query in rows:
                hits = next(answers)
                vectors = self._unpacked(model, hits, dim) if with_vectors else None
                norm = float(np.linalg.norm(query))
                scores = [(2.0 * hit["_score"] - 1.0) * norm if norm else 0.0 for hit in hits]
                ids = [hit["_id"] for hit in hits]
                found[lang].append(Candidates(ids, np.array(scores, dtype=np.float32), vectors))
        return found

    def request(
        self,
        model: str,
        lang: str,
        query: FloatArray,
        k: int,
        *,
        filters: Filters | None = None,
        with_vectors: bool = False,
        lacking: str = "",
    ) -> dict[str, Any]:
        """The body of a search for the nearest documents of one language to one query, (dim,) float32."""
        vectors = self._field(model)
        field, clauses = self._layout.vector(model), self._layout.filters(lang, filters)
        if lacking:
            clauses.append({"bool": {"must_not": [{"exists": {"field": self._layout.vector(lacking)}}]}})
        columns = [{"field": field, "format": "binary"}] if with_vectors else []
        body: dict[str, Any] = {"size": k, "track_total_hits": False, **self._bare(columns)}
        norm = np.linalg.norm(query)
        if norm == 0:  # nothing of the query is left: every document is as near as any other
            return {**body, "query": {"bool": {"filter": [*clauses, {"exists": {"field": field}}]}}}
        body["knn"] = {
            "field": field,
            "query_vector": packed_vector((query / norm).astype(np.float32)),
            "k": max(k, _NEAREST),
            "num_candidates": min(max(2 * k, _FEWEST), 10_000),
            "filter": clauses,
        }
        if not vectors.kind.startswith("bbq"):  # those compare exactly by themselves, and ask for more first
            body["knn"]["rescore_vector"] = {"oversample": 1.0}
        return body

    def _bare(self, columns: Sequence[Any] = ()) -> dict[str, Any]:
        """What a search says whose hits need no source: these columns alone, and the id.

        The server keeps ``_id`` in the compressed blocks that sources are in, and takes more than half of a search to
        read that of each hit; the same id is a column, too.
        """
        return {"stored_fields": "_none_", "docvalue_fields": [self._layout.name("id"), *columns]}

    def _msearch(self, bodies: Sequence[Mapping[str, Any]]) -> list[Hits]:
        """The hits of several searches, so many at once that their answer stays small."""
        found: list[Hits] = []
        some: list[Mapping[str, Any]] = []
        for body in bodies:
            if some and sum(one["size"] for one in some) + body["size"] > _HITS:
                found += self._msearch_at_once(some)
                some = []
            some.append(body)
        return [*found, *(self._msearch_at_once(some) if some else ())]

    def _msearch_at_once(self, bodies: Sequence[Mapping[str, Any]]) -> list[Hits]:
        header = {"index": self.index, "allow_partial_search_results": False}
        searches = [part for body in bodies for part in (header, body)]
        with self._guarded():
            answer = self._client.msearch(searches=searches)
        failed = next((one for one in answer["responses"] if "error" in one), None)
        if failed is not None:
            status = int(failed.get("status", 500))
            raise errors.SearchRefused(self.address.server, status, errors.reason(failed))
        return [[self._named(hit) for hit in one["hits"]["hits"]] for one in answer["responses"]]

    def _named(self, hit: dict[str, Any]) -> dict[str, Any]:
        """A hit with its id, which may have come as a column."""
        return hit if "_id" in hit else {**hit, "_id": hit["fields"][self._layout.name("id")][0]}

    def _refresh(self) -> None:
        """Let searches see what was written here, or, while the index is filled for the first time, anywhere."""
        if self._stale:
            with self._guarded():
                self._client.indices.refresh(index=self.index)
            self._stale = False

    def _see_others_writes(self) -> bool:
        """Let searches see what was written anywhere; where this may not be asked for they see it a second later."""
        from elasticsearch import AuthorizationException  # noqa: PLC0415

        with self._guarded(), suppress(AuthorizationException):
            self._client.indices.refresh(index=self.index)
        return True

    def lexical(
        self, text: str, langs: Sequence[str], k: int, *, filters: Filters | None = None
    ) -> dict[str, list[tuple[str, float]]]:
        """BM25 of the server over the terms that are made here, all languages in one request."""
        self._refresh()
        bodies = self._worded_bodies(text, langs, k, filters)
        return _by_words(langs, bodies, iter(self._msearch(list(bodies.values()))))

    def _worded_bodies(
        self, text: str, langs: Sequence[str], k: int, filters: Filters | None, models: Sequence[str] = ()
    ) -> dict[str, dict[str, Any]]:
        return {lang: body for lang in langs if (body := self._matching(text, lang, k, filters, models))}

    def _matching(
        self, text: str, lang: str, k: int, filters: Filters | None, models: Sequence[str]
    ) -> dict[str, Any] | None:
        """The body of a search for documents of one language that share terms with a text; none without terms.

        With models, of documents that have a vector of one of them.
        """
        field = self._layout.words(lang)
        terms = analyser(lang).query_terms(text)
        clauses = [
            {"prefix": {field: {"value": term[:-1]}}} if term.endswith("*") else {"term": {field: {"value": term}}}
            for term in terms
        ]
        if not clauses:
            return None
        among = self._layout.filters(lang, filters)
        if models:
            among.append({"bool": {"should": [{"exists": {"field": self._layout.vector(one)}} for one in models]}})
        return {
            "size": k,
            "track_total_hits": False,
            **self._bare(),
            "query": {"bool": {"should": clauses, "minimum_should_match": 1, "filter": among}},
            "sort": ["_score", {self._layout.name("id"): "asc"}],
        }

    def vectors(self, model: str, doc_ids: Sequence[str]) -> FloatArray:
        """Stored vectors, (ids, dim) float32."""
        dim = self._field(model).dim
        found: dict[str, FloatArray] = {}
        field = self._layout.vector(model)
        for held in self._by_ids(doc_ids, [{"field": field, "format": "binary"}], field):
            found |= dict(zip((hit["_id"] for hit in held), self._unpacked(model, held, dim), strict=True))
        rows = [found[doc_id] for doc_id in doc_ids]
        return np.stack(rows) if rows else np.empty((0, dim), dtype=np.float32)

    def _unpacked(self, model: str, hits: Sequence[Mapping[str, Any]], dim: int) -> FloatArray:
        field = self._layout.vector(model)
        return unpacked_vectors([hit["fields"][field][0] for hit in hits], dim)

    def _by_ids(self, doc_ids: Sequence[str], fields: Sequence[Any], needed: str) -> Iterator[list[dict[str, Any]]]:
        """Hits with doc values for a list of ids, a page of them at a time, without those that lack a needed one.

        Where one is missing the index is refreshed once: what others wrote a moment ago stands in stamps already.
        """
        self._refresh()
        refreshed = False
        for page in pages(list(dict.fromkeys(doc_ids))):
            held = self._having(page, fields, needed)
            yield held
            missing = sorted(set(page) - {hit["_id"] for hit in held})
            if missing:
                refreshed = refreshed or self._see_others_writes()
                yield self._having(missing, fields, needed)

    def _having(self, doc_ids: Sequence[str], fields: Sequence[Any], needed: str) -> list[dict[str, Any]]:
        query = {"ids": {"values": doc_ids}}
        body = {"size": len(doc_ids), "track_total_hits": False, "query": query, **self._bare(fields)}
        return [hit for hit in self._msearch([body])[0] if needed in hit.get("fields", {})]

    def passages(self, model: str, doc_ids: Sequence[str]) -> list[Passages]:
        """Stored passages, one for each id."""
        dim = self._field(model).dim
        found: dict[str, Passages] = {}
        known = self._layout.known(model)
        for held in self._by_ids(doc_ids, [*self._layout.passages(model), known], known):
            found |= {hit["_id"]: self._passages(model, hit, dim) for hit in held}
        return [found[doc_id] for doc_id in doc_ids]

    def _passages(self, model: str, hit: Mapping[str, Any], dim: int) -> Passages:
        vectors, offsets = (hit["fields"].get(field, [""])[0] for field in self._layout.passages(model))
        return unpacked_passages(vectors, offsets, dim)

    def get(self, doc_ids: Sequence[str]) -> list[Document]:
        """The documents themselves, in the order asked."""
        found: dict[str, ServerDocument] = {}
        fields = ["title", "text", "fields", *(self._layout.name(one) for one in ("lang", "revision"))]
        with self._guarded():
            for page in pages(list(dict.fromkeys(doc_ids))):
                found |= writing.read(self._client, self.address.server, self.index, page, fields)
        return [self._layout.document(doc_id, found[doc_id].source) for doc_id in doc_ids]

    def scan(self, model: str, *, lang: str | None = None, batch: int = 512) -> Iterator[list[StoredDocument]]:
        """Everything stored, in batches, ordered by id."""
        dim = self._field(model).dim
        vector = self._layout.vector(model)
        clauses: list[dict[str, Any]] = [{"exists": {"field": vector}}]
        if lang is not None:
            clauses.append({"term": {self._layout.name("lang"): lang}})
        body = {
            "_source": {"excludes": [self._layout.name(one) for one in ("words", "models")]},
            "docvalue_fields": [
                {"field": vector, "format": "binary"},
                *self._layout.passages(model),
                self._layout.known(model),
            ],
        }
        for hits in self._pages_by_id(clauses, body, batch):
            vectors = self._unpacked(model, hits, dim)
            yield [self._restored(model, hit, row) for hit, row in zip(hits, vectors, strict=True)]

    def _restored(self, model: str, hit: Mapping[str, Any], vector: FloatArray) -> StoredDocument:
        return StoredDocument(
            self._layout.document(hit["_id"], hit["_source"]),
            vector,
            self._passages(model, hit, len(vector)),
            unpacked_known(hit["fields"][self._layout.known(model)][0]),
        )

    def _pages_by_id(
        self, clauses: Sequence[Mapping[str, Any]], body: Mapping[str, Any], batch: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Documents ordered by id, a page a search: nothing is held on the server that a restart could lose."""
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
        """Ids of some documents of a language, drawn at random."""
        self._refresh()
        clauses = [*self._layout.filters(lang, None), {"exists": {"field": self._layout.vector(model)}}]
        drawn = {"query": {"bool": {"filter": clauses}}, "random_score": {"seed": seed, "field": "_seq_no"}}
        body: dict[str, Any] = {
            **self._bare(),
            "query": {"function_score": {**drawn, "boost_mode": "replace"}},
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
        """Every stored id, ordered; the server's own, should somebody have copied one of our documents to another."""
        ours = [{"exists": {"field": self._layout.name("id")}}]
        for hits in self._pages_by_id(ours, {"_source": False}, PAGE):
            yield from (hit["_id"] for hit in hits)

    def delete(self, doc_ids: Iterable[str]) -> int:
        """Remove documents with all that belongs to them."""

        def decide(some: Sequence[str]) -> dict[str, Action]:
            return {one: {"_op_type": "delete", "_index": self.index, "_id": one} for one in some}

        removed = 0
        listed = iter(dict.fromkeys(doc_ids))
        while page := list(islice(listed, PAGE)):
            removed += len(writing.write(self._client, self.address.server, page, decide).done)
            self._stale = True
        return removed

    def _read(self, doc_ids: Sequence[str], fields: Sequence[str]) -> dict[str, ServerDocument]:
        return writing.read(self._client, self.address.server, self.index, doc_ids, fields)

    def _patiently(self, act: Callable[[], T]) -> T:
        """What an index run does besides its writes: a server that is restarted meanwhile must not end it."""
        with self._guarded():
            return writing.patiently(self.address.server, act)

    def publish(self) -> None:
        """Give the index its replicas and refreshes, and the alias to it alone, at once."""
        self._patiently(self._publish)

    def _publish(self) -> None:
        held = self._refuse_taken_alias()
        self._end_loading()
        if held != {self.index}:
            actions = [{"remove": {"index": index, "alias": self.alias}} for index in sorted(held - {self.index})]
            self._client.indices.update_aliases(actions=[*actions, {"add": {"index": self.index, "alias": self.alias}}])

    def _end_loading(self) -> None:
        """Give the index its replicas and refreshes, if it was without them, and let everything be seen."""
        if self._is_loading():
            replicas = self.address.replicas if self.address.replicas >= 0 else None
            settings = {"number_of_replicas": replicas, "refresh_interval": None}
            self._client.indices.put_settings(index=self.index, settings=settings)
        self._client.indices.refresh(index=self.index)
        self._stale = False

    def _is_loading(self) -> bool:
        """Whether the index is being filled for the first time: then only this store's readers refresh it."""
        settings = self._client.indices.get_settings(index=self.index)[self.index]["settings"]
        return bool(settings["index"].get("refresh_interval") == "-1")

    def drop(self) -> None:
        """Remove the index."""
        with connection.guarded(self.address.server):
            _drop(self._client, self.index, self._claim, self._layout)
        self._fields, self._worded = {}, set()
        self.close()

    def count(self, model: str = "") -> dict[str, int]:
        """Documents by language; those with a vector of a model, if one is named."""
        self._refresh()
        among = {"exists": {"field": self._layout.vector(model)}} if model else {"match_all": {}}
        terms = {"terms": {"field": self._layout.name("lang"), "size": _LANGUAGES, "order": {"_key": "asc"}}}
        with self._guarded():
            answer = self._client.search(
                index=self.index, size=0, query=among, aggs={"langs": terms}, allow_partial_search_results=False
            )
        return {one["key"]: one["doc_count"] for one in answer["aggregations"]["langs"]["buckets"]}

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()


def check_name(collection: str) -> None:
    """See that names of indices can be made of a collection's.

    Raises:
        BadInput: they can't.
    """
    if not _NAME.fullmatch(collection):
        raise BadInput(
            f"a collection can't be named {collection!r} on Elasticsearch; "
            "take at most 100 small letters, digits, '.', '-' and '_'"
        )


def drop(address: Address, claim: Claim, credentials: Credentials, generation: int = 1) -> None:
    """Remove a generation's index, also one that can't be opened any more; one that is not ours stays.

    Raises:
        StoreError: the server is away or refuses.
    """
    index = _index(_alias(address, claim.collection), generation)
    with connection.guarded(address.server), connection.connect(address.server, credentials) as client:
        _drop(client, index, claim, Layout(address.field))


def _drop(client: Elasticsearch, index: str, claim: Claim, layout: Layout) -> None:
    found = _described(client, index)
    if found and claim.holds(found["mappings"], layout):
        client.indices.delete(index=index, ignore_unavailable=True)


def _described(client: Elasticsearch, index: str) -> Mapping[str, Any] | None:
    """The mapping of an index, if there is one of this very name; an alias is as somebody else's index."""
    found = client.options(ignore_status=404).indices.get(index=index, features=["mappings"]).body
    return None if "error" in found else found.get(index, {"mappings": {}})


def generations(address: Address, claim: Claim, credentials: Credentials) -> list[int]:
    """Numbers of the generations that have an index of ours.

    Raises:
        StoreError: the server is away or refuses.
    """
    alias, layout = _alias(address, claim.collection), Layout(address.field)
    with connection.guarded(address.server), connection.connect(address.server, credentials) as client:
        found = client.indices.get(index=f"{alias}-*", features=["mappings"], expand_wildcards="all").body
    numbered = ((re.fullmatch(rf"{re.escape(alias)}-(\d{{6}})", name), one) for name, one in found.items())
    return sorted(int(number[1]) for number, one in numbered if number and claim.holds(one["mappings"], layout))


def _alias(address: Address, collection: str) -> str:
    return f"{address.prefix}-{collection}"


def _index(alias: str, generation: int) -> str:
    return f"{alias}-{generation:06d}"


def _by_words(
    langs: Sequence[str], asked: Mapping[str, object], answers: Iterator[Hits]
) -> dict[str, list[tuple[str, float]]]:
    """Ids with BM25 scores by language; those without terms were not asked for and have none."""
    found = {lang: [(hit["_id"], float(hit["_score"])) for hit in next(answers)] for lang in asked}
    return {lang: found.get(lang, []) for lang in langs}


def _unfit(item: StoredDocument) -> str | None:
    try:
        size = len(item.document.doc_id.encode())
        f"{item.document.content}{item.document.fields}".encode()
    except UnicodeEncodeError:
        return "it is not Unicode text"
    return f"its id has {size} bytes, and Elasticsearch takes {_ID_BYTES}" if size > _ID_BYTES else None
