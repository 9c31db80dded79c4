"""Elasticsearch's paths: searches with the clause are answered here, other calls in the lists go to the cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from encoders.errors import BadInput
from indexer.collection.collection import Collection
from indexer.collection.settings import Settings
from indexer.elastic.address import SCHEMES, Address
from indexer.stores.attached.address import Attachment, is_attached
from indexer.stores.attached.companion_index import CompanionStore
from indexer.stores.contract import OnServer
from query.ranking.hits import Hit, Hits
from query.ranking.searcher import Searcher
from query.service import refusals
from query.service.access import Caller
from query.service.elastic import query_clause, response
from query.service.elastic.calls import Call
from query.service.elastic.query_clause import CrossLingual
from query.service.elastic.search_body import (
    bodies,
    named_indices,
    reaches_elsewhere,
    refuse_credential_parameters,
    refuse_scripts_and_pipelines,
)
from query.service.messages import SearchRequest, SimilarRequest
from query.service.open_collections import OpenCollections
from query.service.options import ServiceOptions
from query.service.refusals import Refused
from query.service.routes import Api
from query.service.search_threads import SearchThreads
from query.service.upstream import Upstream

_PRODUCT_HEADER = {"x-elastic-product": "Elasticsearch"}
_SEARCH_ID_HEADER = "x-dragoman-search"
"""Header of an answer with the search's id in the query log, which /api/clicks takes."""
_JSON_TYPE = "application/json"
_BUSY_SECONDS = 2.0
"""Seconds until a caller may try again what the cluster had no room for."""
_REFRESH_SECONDS = 2.0
"""Seconds until the list of collections is read again."""


@dataclass(frozen=True)
class _Place:
    """Where a collection's documents are, and by which names callers reach them.

    Attributes:
        server: of the cluster; empty: the documents are not in a cluster.
        names: that a path may have for it: the collection's own, and those of its index.
        attached: the user's index that the collection is attached to; empty: the index is Dragoman's own.
        read_fields: fields of a source with text and, if the index has them, title and language; they can't filter.
    """

    collection: str
    server: str
    names: frozenset[str]
    read_fields: Sequence[str] = ("text", "title", "lang")
    attached: str = ""

    @classmethod
    def of(cls, row: Collection, settings: Settings) -> _Place:
        """The place of a collection."""
        url = row.place(settings)
        if is_attached(url):
            attachment = Attachment.parse(url)
            names = frozenset({row.name, attachment.index})
            return cls(row.name, attachment.server, names, attachment.read_fields, attachment.index)
        if not url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
            return cls(row.name, "", frozenset({row.name}))
        address = Address.parse(url)
        alias = f"{address.prefix}-{row.name}"
        return cls(row.name, address.server, frozenset({row.name, alias, f"{alias}-{row.generation:06d}"}))

    @property
    def indices(self) -> frozenset[str]:
        """The names that the cluster knows."""
        return self.names if not self.server else self.names - {self.collection} or self.names


class ElasticEndpoint:
    """Answers calls in Elasticsearch's language."""

    def __init__(
        self,
        options: ServiceOptions,
        open_collections: OpenCollections,
        threads: SearchThreads,
        upstream: Upstream | None,
        api: Api,
    ) -> None:
        """Begin without a list of collections; ``upstream`` is the cluster, or none."""
        self._options, self._upstream, self._api = options, upstream, api
        self._open_collections, self._threads = open_collections, threads
        self._places: list[_Place] = []
        self._refreshed_at = -_REFRESH_SECONDS

    async def answer(self, request: Request) -> Response:
        """Answer a call, or refuse it in Elasticsearch's own shape."""
        media = _media(request.headers.get("accept", ""))
        try:
            return await self._answer(request, media)
        except Exception as error:  # noqa: BLE001 - every failure is an answer; what it may say is decided in one place
            refusal = refusals.refusal(error)
            headers = {**_PRODUCT_HEADER, **refusals.headers(refusal)}
            return Response(json.dumps(refusals.elastic_error(refusal)), refusal.status, headers, media)

    async def _answer(self, request: Request, media: str) -> Response:
        scope, caller = request.scope, request.state.caller
        call = Call.parse(request.method, scope["raw_path"], scope["query_string"])
        body = await request.body()
        headers = request.headers
        values = bodies(call, body, headers.get("content-type", ""), headers.get("content-encoding", ""))
        if query_clause.has_clause(values):
            if call.endpoint != "_search" or not isinstance(values[0], dict) or len(call.indices) != 1:
                raise Refused(400, f"{query_clause.NAME} is for _search of one index; give each a call of its own")
            search = query_clause.parse(values[0], dict(call.query))
            answer, search_id = await self._threads.do(lambda: self._search(call.indices[0], search, caller))
            log_header = {_SEARCH_ID_HEADER: search_id} if search_id else {}
            return Response(json.dumps(answer, ensure_ascii=False), 200, {**_PRODUCT_HEADER, **log_header}, media)
        if self._upstream is None:
            if call.kind == ():
                return Response(json.dumps(_INFO), 200, _PRODUCT_HEADER, media)
            raise Refused(
                400, f"there is no Elasticsearch behind this service; give _search a {query_clause.NAME} clause"
            )
        if (call.writes or not caller.authorization) and self._stale:
            await self._threads.do(self._refresh_places)
        self._require_allowed(call, values, caller)
        if call.writes:
            await _require_existing(self._upstream, named_indices(call, values))
        repeatable = not (call.writes or call.needs_credentials)
        status, returned_headers, content = await self._upstream.send(
            call.method, call.target, headers, body, caller.authorization, repeatable=repeatable
        )
        wait_header = refusals.wait_header(_BUSY_SECONDS) if status in {429, 503} else {}
        return Response(content, status, {**_PRODUCT_HEADER, **returned_headers, **wait_header})

    def _require_allowed(self, call: Call, values: list[Any], caller: Caller) -> None:
        """Refuse a call that may not be passed on to the cluster.

        Raises:
            Refused: the options, the caller's rights or the named indices do not allow the call.
        """
        if call.writes and not self._options.writes:
            raise Refused(403, "writes are not passed on; write to Elasticsearch itself")
        if call.writes and not caller.writes:
            raise Refused(403, "this token may read only")
        if call.writes:
            refuse_scripts_and_pipelines(call, values)
            self._require_attached(named_indices(call, values))
        if caller.authorization:
            return
        if call.needs_credentials:
            raise Refused(403, "this call needs your own Elasticsearch credentials")
        refuse_credential_parameters(call)
        if call.kind == () or call.endpoint == "_cluster":
            return
        served = {name for place in self._places if place.server == self._server for name in place.indices}
        for name in named_indices(call, values):
            if name not in served and not any(_matches(name, pattern) for pattern in self._options.indices):
                raise Refused(
                    403,
                    f"{name[:100]!r} is no index of a collection that is served; "
                    "send your own Elasticsearch credentials to read others",
                )
        if not call.writes and (reason := reaches_elsewhere(values)):
            raise Refused(403, f"{reason} needs your own Elasticsearch credentials")

    def _require_attached(self, names: Sequence[str]) -> None:
        """Refuse a write into an index that is not a user's: Dragoman's own store knows the revisions of its documents.

        Raises:
            Refused: no served collection is attached to an index of this name.
        """
        places = [place for place in self._places if place.server == self._server]
        own = {name for place in places if not place.attached for name in place.indices}
        for name in names:
            if name in own or not any(name == place.attached for place in places):
                raise Refused(
                    403,
                    f"no collection that is served is attached to {name[:100]!r}, so nothing is written there; "
                    "write to Elasticsearch itself",
                )

    @property
    def _server(self) -> str:
        return self._upstream.server if self._upstream else ""

    @property
    def _stale(self) -> bool:
        return time.monotonic() - self._refreshed_at > _REFRESH_SECONDS

    def _refresh_places(self) -> None:
        """Read the list of collections and their places."""
        self._places = [_Place.of(row, self._options.settings) for row in self._open_collections.rows()]
        self._refreshed_at = time.monotonic()

    def _search(self, index: str, search: CrossLingual, caller: Caller) -> tuple[dict[str, Any], str | None]:
        """The body of the answer, and the search's id in the query log."""
        begun = time.perf_counter()
        if self._stale:
            self._refresh_places()
        named = [served for served in self._places if index in served.names]
        place = next((served for served in named if served.collection == index), named[0] if named else None)
        if place is None:
            raise Refused(404, f"no collection is served for the index {index!r}; see /api/collections")
        self._check_credentials(place, search, caller)
        asked = search.asked
        calibration, weights = (asked.calibration, asked.weights) if isinstance(asked, SearchRequest) else ("", None)
        with self._open_collections.searcher(place.collection, calibration) as unweighted:
            searcher, filters = _narrowed(unweighted.weighed(weights or ()), search, caller.authorization, place)
            hits, logged = self._hits(searcher, asked, filters)
            if not hits and caller.authorization and isinstance(searcher.store, OnServer):
                searcher.store.require_visible(searcher.stored_model)
            matching = _matching(searcher, search, hits, filters, caller.authorization)
            name, sources = _sources(searcher, hits[search.start : search.start + search.size], place)
        took = round(1000 * (time.perf_counter() - begun))
        return response.answer(search, hits, name, sources, place.read_fields[0], matching, took), logged

    def _hits(
        self, searcher: Searcher, asked: SearchRequest | SimilarRequest, filters: Mapping[str, Any] | None
    ) -> tuple[Hits, str | None]:
        """The hits, and the search's id in the query log."""
        if isinstance(asked, SimilarRequest):
            return searcher.similar(asked.id, to=asked.to, k=asked.k, filters=filters), None
        result = self._api.run_search(searcher, asked, filters)
        return result.hits, result.logged

    def _check_credentials(self, place: _Place, search: CrossLingual, caller: Caller) -> None:
        """Refuse credentials of another place than the documents', and filters that read other indices."""
        if caller.authorization and place.server != self._server:
            if self._options.tokens or place.server:
                raise Refused(403, "Elasticsearch's credentials don't open collections that are not in it")
        elif not caller.authorization and (reason := reaches_elsewhere(list(search.filters))):
            raise Refused(403, f"{reason} needs your own Elasticsearch credentials")


async def _require_existing(upstream: Upstream, names: Sequence[str]) -> None:
    """Refuse a write into an index that is gone: Elasticsearch would make it anew, with a mapping of its own choice.

    The service asks by its own credentials, as those of a writer may not let it look at the index.

    Raises:
        Refused: an index is gone, or the cluster does not say whether it is there.
    """
    for name in sorted(set(names)):
        status, _, _ = await upstream.send("HEAD", f"/{quote(name, safe='')}", {}, b"", "", repeatable=True)
        if status == 404:
            raise Refused(
                404,
                f"the attached index {name!r} is gone, and a write would make it with another mapping; make it first",
            )
        if status != 200:
            raise Refused(503, f"Elasticsearch does not say whether the index {name!r} is there; try again", 2.0)


def _narrowed(
    searcher: Searcher, search: CrossLingual, authorization: str, place: _Place
) -> tuple[Searcher, Mapping[str, Any] | None]:
    """The searcher narrowed to the caller's rights and filters, and the filters that are left for ``search``."""
    store = searcher.store
    if not isinstance(store, OnServer):
        return searcher, query_clause.as_filters(search.filters, place.read_fields) or None
    if not (search.filters or authorization):
        return searcher, None
    try:
        return replace(searcher, store=store.narrowed(search.filters, authorization)), None
    except BadInput:  # the vectors are in a companion index, which does not have the fields of the caller's clauses
        filters = query_clause.as_filters(search.filters, place.read_fields)
    return replace(searcher, store=store.narrowed((), authorization)), filters


def _matching(
    searcher: Searcher, search: CrossLingual, hits: Hits, filters: Mapping[str, Any] | None, authorization: str
) -> int | None:
    """Number of documents that the search can find, whatever its ``from`` and ``size``.

    None: at least the hits. The rules of an index whose vectors lie beside it do not hold in the index of the vectors,
    where a count would tell of documents that are hidden from the caller.
    """
    if len(hits) < search.asked.k:
        return len(hits)
    if authorization and isinstance(searcher.store, CompanionStore):
        return None
    like = isinstance(search.asked, SimilarRequest)
    targets = searcher.targets(search.asked.to or (searcher.other_languages(hits.lang) if like else None))
    if search.filters or authorization:
        return max(len(hits), searcher.store.count_passing(targets, filters))
    return max(len(hits), sum(searcher.languages[lang] for lang in targets))


def _sources(searcher: Searcher, hits: Sequence[Hit], place: _Place) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Name of the index, and the sources of the hits by id."""
    store = searcher.store
    if isinstance(store, OnServer):
        return store.shown_index, store.originals([hit.doc_id for hit in hits]) if hits else {}
    return place.collection, {
        hit.doc_id: {
            "title": hit.document.title,
            "text": hit.document.text,
            "lang": hit.lang,
            "fields": dict(hit.document.fields),
        }
        for hit in hits
    }


def _matches(name: str, pattern: str) -> bool:
    """Whether a name that is no pattern and not ``_all`` matches; only patterns with a dot match hidden names."""
    plain = not any(character in name for character in "*?:<>") and name[:1] not in {"-", "_", ""}
    return plain and name.startswith(".") == pattern.startswith(".") and fnmatchcase(name, pattern)


def _media(accept: str) -> str:
    """The content type of an answer: Elasticsearch's own if the caller accepts that."""
    match = re.match(r"application/vnd\.elasticsearch\+json; ?compatible-with=\d+", accept)
    return match[0] if match else _JSON_TYPE


_INFO = {
    "name": "dragoman",
    "cluster_name": "dragoman",
    "version": {"number": "9.3.0", "build_flavor": "default", "minimum_wire_compatibility_version": "8.19.0"},
    "tagline": "You Know, for Search",
}
"""The answer to a client's first call, with the Elasticsearch version whose searches the service takes."""
