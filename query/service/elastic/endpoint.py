"""Elasticsearch's paths: searches with the clause are answered here, what else is listed goes to the cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from fastapi import Request, Response

from encoders.errors import BadInput
from indexer.collection.collection import Collection
from indexer.elastic.address import SCHEMES, Address
from indexer.settings import Settings
from indexer.stores.attached.address import Attachment, is_attached
from indexer.stores.contract import OnServer
from query.ranking.hits import Hit
from query.ranking.searcher import Searcher
from query.service import refusals
from query.service.access import Caller
from query.service.admission import Refused, SearchThreads
from query.service.elastic import query_clause, response
from query.service.elastic.calls import Call
from query.service.elastic.query_clause import CrossLingual
from query.service.elastic.search_body import bodies, named_indices, reaches_elsewhere, refuse_own_parameters
from query.service.middleware import elastic_error
from query.service.open_collections import OpenCollections
from query.service.options import ServiceOptions
from query.service.routes import Api
from query.service.upstream import Upstream

_PRODUCT = {"x-elastic-product": "Elasticsearch"}
_LOGGED = "x-dragoman-search"
"""Where a log is kept: the search's id, which /api/clicks takes."""
_PLAIN = "application/json"
_BELIEVED = 2.0
"""Seconds that the list of collections is believed."""


@dataclass(frozen=True)
class _Place:
    """Where a collection's documents are, as callers name it.

    Attributes:
        collection: its name.
        server: of the cluster; empty: they are not in one.
        names: that stand for it in a path: its own, and those of its index.
        read_fields: of a source: text, and where there are such title and language; they are kept apart from the fields
            that filter.
    """

    collection: str
    server: str
    names: frozenset[str]
    read_fields: Sequence[str] = ("text", "title", "lang")

    @classmethod
    def of(cls, row: Collection, settings: Settings) -> _Place:
        """Of a collection."""
        url = row.place(settings)
        if is_attached(url):
            attachment = Attachment.parse(url)
            return cls(row.name, attachment.server, frozenset({row.name, attachment.index}), attachment.read_fields)
        if not url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
            return cls(row.name, "", frozenset({row.name}))
        address = Address.parse(url)
        alias = f"{address.prefix}-{row.name}"
        return cls(row.name, address.server, frozenset({row.name, alias, f"{alias}-{row.generation:06d}"}))

    @property
    def indices(self) -> frozenset[str]:
        """Those of the names that the cluster knows."""
        return self.names if not self.server else self.names - {self.collection} or self.names


class ElasticEndpoint:
    """Answers what speaks Elasticsearch."""

    def __init__(
        self, options: ServiceOptions, shelf: OpenCollections, desk: SearchThreads, upstream: Upstream | None, api: Api
    ) -> None:
        """Take what is behind: the collections, a cluster where there is one, and what searches."""
        self._options, self._shelf, self._desk, self._upstream = options, shelf, desk, upstream
        self._api = api
        self._places: list[_Place] = []
        self._looked = -_BELIEVED

    async def answer(self, request: Request) -> Response:
        """Answer a call, or refuse it in Elasticsearch's own shape."""
        media = _media(request.headers.get("accept", ""))
        try:
            return await self._answer(request, media)
        except Exception as error:  # noqa: BLE001 - every failure is an answer; what it may say is decided in one place
            refused = refusals.refusal(error)
            headers = {**_PRODUCT, **refusals.headers(refused)}
            return Response(json.dumps(elastic_error(refused)), refused.status, headers, media)

    async def _answer(self, request: Request, media: str) -> Response:
        scope, caller = request.scope, request.state.caller
        call = Call.parse(request.method, scope["raw_path"], scope["query_string"])
        body = await request.body()
        headers = request.headers
        read = bodies(call, body, headers.get("content-type", ""), headers.get("content-encoding", ""))
        if query_clause.has_clause(read):
            if call.endpoint != "_search" or not isinstance(read[0], dict) or len(call.indices) != 1:
                raise Refused(400, f"{query_clause.NAME} is for _search of one index; give each a call of its own")
            made, logged = await self._cross_lingual(call, read[0], caller)
            said = {_LOGGED: logged} if logged else {}
            return Response(json.dumps(made, ensure_ascii=False), 200, {**_PRODUCT, **said}, media)
        if self._upstream is None:
            if call.kind == ():
                return Response(json.dumps(_INFO), 200, _PRODUCT, media)
            raise Refused(
                400, f"there is no Elasticsearch behind this service; give _search a {query_clause.NAME} clause"
            )
        if not caller.authorization and self._stale:
            await self._desk.do(self._look)
        self._admit(call, read, caller)
        status, returned, content = await self._upstream.send(
            call.method, call.target, headers, body, caller.authorization
        )
        return Response(content, status, {**_PRODUCT, **returned})

    def _admit(self, call: Call, read: list[Any], caller: Caller) -> None:
        """See that a call may be passed on.

        Raises:
            Refused: it may not.
        """
        if call.writes and not self._options.writes:
            raise Refused(403, "writes are not passed on; write to Elasticsearch itself")
        if call.writes and not caller.writes:
            raise Refused(403, "this token may read only")
        if caller.authorization:
            return
        if call.own:
            raise Refused(403, "this call needs your own Elasticsearch credentials")
        refuse_own_parameters(call)
        if call.kind == () or call.endpoint == "_cluster":
            return
        served = {name for place in self._places if place.server == self._server for name in place.indices}
        for name in named_indices(call, read):
            if name not in served and not any(_matches(name, pattern) for pattern in self._options.indices):
                raise Refused(
                    403,
                    f"{name[:100]!r} is no index of a collection that is served; "
                    "send your own Elasticsearch credentials to read others",
                )
        if not call.writes and (how := reaches_elsewhere(read)):
            raise Refused(403, f"{how} needs your own Elasticsearch credentials")

    @property
    def _server(self) -> str:
        return self._upstream.server if self._upstream else ""

    @property
    def _stale(self) -> bool:
        return time.monotonic() - self._looked > _BELIEVED

    def _look(self) -> None:
        """See which collections there are, and where."""
        self._places = [_Place.of(row, self._options.settings) for row in self._shelf.rows()]
        self._looked = time.monotonic()

    async def _cross_lingual(
        self, call: Call, body: Mapping[str, Any], caller: Caller
    ) -> tuple[dict[str, Any], str | None]:
        search = query_clause.parse(body, dict(call.query))
        return await self._desk.do(lambda: self._search(call.indices[0], search, caller))

    def _search(self, index: str, search: CrossLingual, caller: Caller) -> tuple[dict[str, Any], str | None]:
        """The answer's body, and the search's id in the query log."""
        begun = time.perf_counter()
        if self._stale:
            self._look()
        place = next((one for one in self._places if index in one.names), None)
        if place is None:
            raise Refused(404, f"no collection is served for the index {index!r}; see /api/collections")
        self._check(place, search, caller)
        with self._shelf.searcher(place.collection, search.asked.calibration) as whole:
            weighed = whole.weighed(search.asked.weights or ())
            searcher, filters = _narrowed(weighed, search, caller.authorization, place)
            found = self._api.found(searcher, search.asked, filters)
            hits = found.hits
            name, sources = _sources(searcher, hits[search.start : search.start + search.size], place)
        took = round(1000 * (time.perf_counter() - begun))
        return response.answer(search, hits, name, sources, place.read_fields[0], took), found.logged

    def _check(self, place: _Place, search: CrossLingual, caller: Caller) -> None:
        """See that the caller's credentials are for where the documents are, and its filters for these."""
        if caller.authorization and place.server != self._server:
            if self._options.tokens or place.server:
                raise Refused(403, "Elasticsearch's credentials don't open collections that are not in it")
        elif not caller.authorization and (how := reaches_elsewhere(list(search.filters))):
            raise Refused(403, f"{how} needs your own Elasticsearch credentials")


def _narrowed(
    searcher: Searcher, search: CrossLingual, authorization: str, place: _Place
) -> tuple[Searcher, Mapping[str, Any] | None]:
    """The searcher as the caller may use it, and the filters that it takes by itself."""
    store = searcher.store
    if not isinstance(store, OnServer):
        return searcher, query_clause.as_filters(search.filters, place.read_fields) or None
    if not (search.filters or authorization):
        return searcher, None
    try:
        return replace(searcher, store=store.narrowed(search.filters, authorization)), None
    except BadInput:  # vectors in an index beside the caller's, where its clauses say nothing
        filters = query_clause.as_filters(search.filters, place.read_fields)
    return replace(searcher, store=store.narrowed((), authorization)), filters


def _sources(searcher: Searcher, hits: Sequence[Hit], place: _Place) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Name of the index, and what its readers find under the hits' ids."""
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
    """Whether a name is of a pattern: one name and no pattern itself, and a hidden one of a pattern of such alone."""
    plain = not any(character in name for character in "*?:<>") and name[:1] not in {"-", ""}
    return plain and name.startswith(".") == pattern.startswith(".") and fnmatchcase(name, pattern)


def _media(accept: str) -> str:
    """The content type of an answer: Elasticsearch's own where the caller speaks that."""
    found = re.match(r"application/vnd\.elasticsearch\+json; ?compatible-with=\d+", accept)
    return found[0] if found else _PLAIN


_INFO = {
    "name": "dragoman",
    "cluster_name": "dragoman",
    "version": {"number": "9.3.0", "build_flavor": "default", "minimum_wire_compatibility_version": "8.19.0"},
    "tagline": "You Know, for Search",
}
"""What clients ask a server for first; this one is as new as the search it takes."""
