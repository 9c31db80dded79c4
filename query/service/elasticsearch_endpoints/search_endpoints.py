"""``_search``, ``_count`` and ``_msearch``: with the clause answered here, without it by the Elasticsearch cluster."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from fastapi import Request, Response

from encoders.errors import DragomanError
from indexer.stores.collection_names import NoCollection
from query.ranking.search_hits import Hit
from query.ranking.searcher_opening import EmptyCollection
from query.service import refusals
from query.service.access import Caller
from query.service.api_routes import Api
from query.service.cluster_connection import Cluster
from query.service.elasticsearch_endpoints import cross_lingual_clause, search_response
from query.service.elasticsearch_endpoints.collection_places import Place, named_places
from query.service.elasticsearch_endpoints.cross_lingual_clause import NAME, CrossLingual
from query.service.elasticsearch_endpoints.search_calls import (
    Call,
    body_lines,
    header_indices,
    named_indices,
    narrowed_to,
    reaches_elsewhere,
)
from query.service.elasticsearch_endpoints.search_response import Group
from query.service.elasticsearch_endpoints.searched_collection import SearchedCollection
from query.service.open_collections import OpenCollections
from query.service.refusals import PRODUCT_HEADER, Refused
from query.service.search_threads import SearchThreads
from query.service.service_options import ServiceOptions

_BUSY_SECONDS = 2.0
"""Seconds until a caller may try again what the cluster had no room for."""
_REFRESH_SECONDS = 2.0
"""Seconds until the list of collections is read again."""
_MOST_SEARCHES = 100
"""Searches with the clause in one ``_msearch``, which are answered one after another."""
_GREETING = {
    "name": "dragoman",
    "cluster_name": "dragoman",
    "version": {"number": "9.3.0", "build_flavor": "default", "minimum_wire_compatibility_version": "8.19.0"},
    "tagline": "You Know, for Search",
}
"""The answer to a client's first call, with the Elasticsearch version whose searches the service takes."""


class SearchEndpoints:
    """Answers searches in Elasticsearch's language."""

    def __init__(
        self,
        options: ServiceOptions,
        open_collections: OpenCollections,
        threads: SearchThreads,
        cluster: Callable[[], Cluster | None],
        api: Api,
    ) -> None:
        """Begin without a list of collections; the cluster, if any, answers searches without the clause."""
        self._options, self._cluster, self._api = options, cluster, api
        self._open_collections, self._threads = open_collections, threads
        self._places: list[Place] = []
        self._refreshed_at = -_REFRESH_SECONDS

    async def answer(self, request: Request) -> Response:
        """Answer a call, or refuse it in Elasticsearch's own shape."""
        media = _media(request.headers.get("accept", ""))
        try:
            return await self._answer(request, media)
        except Exception as error:  # noqa: BLE001 - every failure is an answer; what it may say is decided in one place
            return refusals.elastic_answer(error, media)

    async def _answer(self, request: Request, media: str) -> Response:
        caller, headers = request.state.caller, dict(PRODUCT_HEADER)
        call = Call.parse(request.method, request.scope["raw_path"], request.scope["query_string"])
        if not call.endpoint:
            return Response(json.dumps(_GREETING), 200, headers, media)
        content_type, encoding = (request.headers.get(f"content-{name}", "") for name in ("type", "encoding"))
        lines, values = body_lines(call, await request.body(), content_type, encoding)
        if not cross_lingual_clause.has_clause(values):
            return await self._pass_on(call, request, lines, values)
        if call.endpoint == "_msearch":
            return await self._answer_several(call, request, lines, values, media)
        if not call.indices:
            raise Refused(400, f"{NAME} is for indices in the path of _search and _count, or in headers of _msearch")
        search = cross_lingual_clause.parse(values[0], call.parameters)
        answer: dict[str, Any]
        if call.endpoint == "_count":
            if unknown := values[0].keys() - {"query"}:
                raise Refused(400, f"_count has a query alone; leave {min(unknown)[:100]} out")
            answer = await self._threads.do(lambda: self._count(call.indices, search, caller))
        else:
            answer, search_id = await self._threads.do(lambda: self._search(call.indices, search, caller))
            headers |= {"x-dragoman-search": search_id} if search_id else {}  # which /api/clicks takes
        return Response(json.dumps(answer, ensure_ascii=False), 200, headers, media)

    async def _answer_several(
        self, call: Call, request: Request, lines: Sequence[bytes], values: Sequence[Any], media: str
    ) -> Response:
        """Answer an ``_msearch``: the cluster its searches without the clause, all at once, the service the others."""
        begun = time.perf_counter()
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        here = [cross_lingual_clause.has_clause(pair) for pair in pairs]
        if len(pairs[-1]) == 1 or sum(here) > _MOST_SEARCHES:
            raise Refused(400, f"an _msearch has a header and a body for each of at most {_MOST_SEARCHES} searches")
        of_cluster: Iterator[Any] = iter(())
        if not all(here):
            at_cluster = [at for at in range(len(lines)) if not here[at // 2]]
            passed = await self._pass_on(
                call, request, [lines[at] for at in at_cluster], [values[at] for at in at_cluster]
            )
            if passed.status_code != 200:
                return passed
            of_cluster = iter(json.loads(bytes(passed.body))["responses"])
        responses = [
            await self._one_of_several(call, pair[0], pair[1], request.state.caller) if is_here else next(of_cluster)
            for pair, is_here in zip(pairs, here, strict=True)
        ]
        answer = {"took": round(1000 * (time.perf_counter() - begun)), "responses": responses}
        return Response(json.dumps(answer, ensure_ascii=False), 200, PRODUCT_HEADER, media)

    async def _one_of_several(self, call: Call, header: Any, body: Any, caller: Caller) -> dict[str, Any]:
        """The answer to a search of an ``_msearch``, or its refusal; its header has indices and parameters."""
        try:
            indices = list(header_indices(call, header))
            settings = {name: value for name, value in header.items() if name not in {"index", "indices"}}
            own = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
            search = cross_lingual_clause.parse(body, {**call.parameters, **own})
            answer, _ = await self._threads.do(lambda: self._search(indices, search, caller))
        except Exception as error:  # noqa: BLE001 - the refusal of one search is its answer
            return refusals.elastic_error(refusals.refusal(error))
        return {**answer, "status": 200}

    async def _pass_on(self, call: Call, request: Request, lines: Sequence[bytes], values: Sequence[Any]) -> Response:
        """The cluster's answer to searches without the clause. Raises Refused: no cluster, or no right to the call."""
        caller = request.state.caller
        if (cluster := self._cluster()) is None:
            raise Refused(400, f"there is no Elasticsearch behind this service; give {call.endpoint} a {NAME} clause")
        if not caller.authorization:
            if self._stale:
                await self._threads.do(self._refresh_places)
            here = [place for place in self._places if place.server == self._server]
            served = {name: indices for place in here for name, indices in place.served.items()}
            for name in named_indices(call, values):
                if name not in served:
                    unserved = f"{name[:100]!r} is no index of a collection that is served"
                    raise Refused(403, f"{unserved}; send your own Elasticsearch credentials to read others")
            _require_inside(values)
            call, lines = narrowed_to(served, call, lines, values)
        body = b"".join(line + b"\n" for line in lines)
        status, returned_headers, content = await cluster.send(
            call.method, call.target, request.headers, body, caller.authorization
        )
        wait_header = refusals.wait_header(_BUSY_SECONDS) if status in {429, 503} else {}
        return Response(content, status, {**PRODUCT_HEADER, **returned_headers, **wait_header})

    @property
    def _server(self) -> str:
        cluster = self._cluster()
        return cluster.server if cluster else ""

    @property
    def _stale(self) -> bool:
        return time.monotonic() - self._refreshed_at > _REFRESH_SECONDS

    def _refresh_places(self) -> None:
        engine, settings = self._open_collections.engine, self._options.settings
        self._places = [Place.of(row, settings, engine) for row in self._open_collections.rows()]
        self._refreshed_at = time.monotonic()

    def _search(
        self, indices: Sequence[str], search: CrossLingual, caller: Caller
    ) -> tuple[dict[str, Any], str | None]:
        """The body of the answer, and the search's id in the query log."""
        begun = time.perf_counter()
        with self._searched(indices, search, caller) as searched:
            groups_once: list[list[Group]] = []

            def grouped(hits: Sequence[Hit]) -> list[Group]:
                if not groups_once:  # the log needs them before the answer
                    groups_once.append(searched.groups(search, hits))
                return groups_once[0]

            def shown_in(groups: Sequence[Group]) -> list[Hit]:
                return [hit for group in groups for hit in search_response.shown_hits(search, group)]

            result = self._api.run_search(
                searched.searcher,
                search.asked,
                searched.filters,
                shown=lambda hits: shown_in(grouped(hits)[: search.start + search.size]),
                passages=search.passages.start + search.passages.size if search.passages else 0,
            )
            groups, hits = grouped(result.hits), search.reaching(result.hits)
            if not result.hits:
                searched.require_visible()
                searched.require_fields()
            matching = searched.matching(search, hits)
            page = groups[search.start : search.start + search.size]
            shown = searched.shown(shown_in(page))
        took = round(1000 * (time.perf_counter() - begun))
        return search_response.answer(search, hits, page, shown, matching, took), result.logged

    def _count(self, indices: Sequence[str], search: CrossLingual, caller: Caller) -> dict[str, Any]:
        with self._searched(indices, search, caller) as searched:
            searched.require_visible()
            if (count := searched.count(search)) is None:
                raise Refused(
                    400, "your credentials can't count here, as the vectors lie beside the index; search instead"
                )
            if not count:
                searched.require_fields()
        return {"count": count, "_shards": search_response.SHARDS}

    @contextmanager
    def _searched(self, indices: Sequence[str], search: CrossLingual, caller: Caller) -> Iterator[SearchedCollection]:
        """The collection of the named indices. Raises Refused: it is not one, or the caller may not read any named."""
        if self._stale:
            self._refresh_places()
        places = named_places(self._places, indices)
        collections: list[SearchedCollection] = []
        refusal: Exception = Refused(404, "no collection is named")
        with ExitStack() as stack:
            for named in places:
                try:
                    self._check_credentials(named.place, search, caller)
                    opened = self._open_collections.searcher(named.place.collection, search.asked.calibration)
                    searcher = stack.enter_context(opened)
                    collection = SearchedCollection.of(named, searcher, search, caller.authorization)
                    if len(places) > 1:
                        collection.require_visible()
                except (Refused, DragomanError) as error:
                    hidden = isinstance(error, EmptyCollection | NoCollection) or refusals.is_forbidden(error)
                    if not (named.by_pattern and hidden):
                        raise
                    refusal = error
                else:
                    collections.append(collection)
            if not collections:
                raise refusal
            if len(collections) > 1:
                names = " and ".join(collection.place.collection for collection in collections[:2])
                raise Refused(
                    400,
                    f"{names} are collections of their own, whose scores do not compare; search one, or attach the "
                    "indices as one: dragoman attach 'INDEX,INDEX' -c NAME",
                )
            yield collections[0]

    def _check_credentials(self, place: Place, search: CrossLingual, caller: Caller) -> None:
        """Refuse credentials of another place than the documents', and filters that read other indices."""
        if not caller.authorization:
            _require_inside(search.filters)
        elif place.server != self._server and (self._options.tokens or place.server):
            raise Refused(403, "Elasticsearch's credentials don't open collections that are not in it")


def _require_inside(values: Sequence[Any]) -> None:
    """Refuse, to a caller without credentials of their own, what runs a script or reads another index."""
    if reason := reaches_elsewhere(list(values)):
        raise Refused(403, f"{reason} needs your own Elasticsearch credentials")


def _media(accept: str) -> str:
    """The content type of an answer: Elasticsearch's own if the caller accepts that."""
    match = re.match(r"application/vnd\.elasticsearch\+json; ?compatible-with=\d+", accept)
    return match[0] if match else "application/json"
