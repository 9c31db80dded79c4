"""Elasticsearch's paths: searches with the clause are answered here, other calls in the lists go to the cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from encoders.errors import DragomanError
from indexer.collection.collection import NoCollection
from query.calibration.table import NONE
from query.ranking.hits import Hit
from query.ranking.searcher import EmptyCollection
from query.service import refusals
from query.service.access import Caller
from query.service.elastic import query_clause, response
from query.service.elastic.calls import Call
from query.service.elastic.collapsed import Group
from query.service.elastic.places import NamedPlace, Place, matches, named_places
from query.service.elastic.query_clause import CrossLingual
from query.service.elastic.search_body import (
    bodies,
    named_indices,
    reaches_elsewhere,
    refuse_credential_parameters,
    refuse_scripts_and_pipelines,
)
from query.service.elastic.searched import Searched, SearchedCollection
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
        self._places: list[Place] = []
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
            if call.endpoint != "_search" or not isinstance(values[0], dict) or not call.indices:
                raise Refused(
                    400,
                    f"{query_clause.NAME} is for _search of indices in its path; give each search a call of its own",
                )
            search = query_clause.parse(values[0], dict(call.query))
            answer, search_id = await self._threads.do(lambda: self._search(call.indices, search, caller))
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
            if name not in served and not any(matches(name, pattern) for pattern in self._options.indices):
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
        self._places = [Place.of(row, self._options.settings) for row in self._open_collections.rows()]
        self._refreshed_at = time.monotonic()

    def _search(
        self, indices: Sequence[str], search: CrossLingual, caller: Caller
    ) -> tuple[dict[str, Any], str | None]:
        """The body of the answer, and the search's id in the query log."""
        begun = time.perf_counter()
        if self._stale:
            self._refresh_places()
        places = named_places(self._places, indices)
        if len(places) > 1 and search.asked.calibration not in {"", NONE}:
            raise Refused(
                400,
                "calibration can't be combined with several indices, as a calibration is of one collection; "
                f"leave it out, or take {NONE}",
            )
        with ExitStack() as stack:
            collections = self._collections(places, search, caller, stack)
            if len(collections) > 1:
                search = _without_words(search)
            searched = Searched.of(collections)
            groups_once: list[list[Group]] = []

            def grouped(hits: Sequence[Hit]) -> list[Group]:
                if not groups_once:  # the log needs them before the answer
                    groups_once.append(searched.groups(search, hits))
                return groups_once[0]

            def shown_in(groups: Sequence[Group]) -> list[Hit]:
                return [hit for group in groups for hit in response.shown_hits(search, group)]

            result = self._api.run_search(
                searched.searcher,
                search.asked,
                searched.filters,
                shown=lambda hits: shown_in(grouped(hits)[: search.start + search.size]),
                names=list(searched.collections),
                passages=search.passages.start + search.passages.size if search.passages else 0,
            )
            groups, hits = grouped(result.hits), search.reaching(result.hits)
            if not result.hits and len(collections) == 1:
                collections[0].require_visible()
            elif not result.hits:
                searched.require_fields()
            matching = searched.matching(search, hits)
            page = groups[search.start : search.start + search.size]
            shown = searched.shown(shown_in(page))
        took = round(1000 * (time.perf_counter() - begun))
        return response.answer(search, hits, page, shown, matching, took), result.logged

    def _collections(
        self, places: Sequence[NamedPlace], search: CrossLingual, caller: Caller, stack: ExitStack
    ) -> list[SearchedCollection]:
        """The collections of the places, which ``stack`` holds open; a pattern leaves out what can't be read.

        Raises:
            Refused: the caller may read none of them, or not one that is named.
        """
        collections: list[SearchedCollection] = []
        refusal: Exception = Refused(404, "no collection is named")
        for named in places:
            try:
                self._check_credentials(named.place, search, caller)
                opened = self._open_collections.searcher(named.place.collection, search.asked.calibration)
                searcher = stack.enter_context(opened)
                collection = SearchedCollection.of(named.place, searcher, search, caller.authorization)
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
        return collections

    def _check_credentials(self, place: Place, search: CrossLingual, caller: Caller) -> None:
        """Refuse credentials of another place than the documents', and filters that read other indices."""
        if caller.authorization and place.server != self._server:
            if self._options.tokens or place.server:
                raise Refused(403, "Elasticsearch's credentials don't open collections that are not in it")
        elif not caller.authorization and (reason := reaches_elsewhere(list(search.filters))):
            raise Refused(403, f"{reason} needs your own Elasticsearch credentials")


def _without_words(search: CrossLingual) -> CrossLingual:
    """A search of several collections, which are ranked without words.

    Raises:
        Refused: the search asks for words.
    """
    if search.asked.hybrid:
        raise Refused(400, "hybrid can't be combined with several indices: scores of words compare within one alone")
    return replace(search, asked=search.asked.model_copy(update={"hybrid": False}))


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
