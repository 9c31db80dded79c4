"""The service as an ASGI application."""

import asyncio
import base64
import gzip
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from encoders.errors import BadInput, DragomanError
from indexer.cluster.cluster_address import SCHEMES, Credentials, without_credentials
from query.service import refusals
from query.service.agents.agent_transports import AgentRoute
from query.service.api_routes import Api
from query.service.cluster_connection import Cluster
from query.service.collection_watch import CollectionWatch
from query.service.elasticsearch_endpoints.search_endpoints import SearchEndpoints
from query.service.open_collections import OpenCollections
from query.service.query_log_writer import QueryLog
from query.service.refusals import Refused
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from query.web_server.request_checks import OWN_PATHS, AccessMiddleware, is_elastic

_SCRIPTS = ("words", "address", "settings", "search", "hits", "reading", "start")
"""Files of the page's script, in their order."""


class _ElasticPath(Convertor[str]):
    """Paths that are not the service's own, so that the service's own answer 405 to other methods."""

    regex = rf"(?!{OWN_PATHS}$).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("elastic", _ElasticPath())


class Service:
    """The service: its collections, search threads, query log and ASGI application ``app``, which starts threads."""

    def __init__(self, options: ServiceOptions) -> None:
        """Open the database. Raises BadInput: a collection or server is unknown; StoreError: the database fails."""
        self._options = options
        self._metrics = Metrics()
        self.open_collections = OpenCollections(options, self._metrics)
        self._threads = SearchThreads(options, self._metrics)
        self._log = QueryLog(self.open_collections.engine, options.log_days, self._metrics) if options.log else None
        self._api = Api(self.open_collections, self._threads, self._metrics, self._log, hybrid=options.hybrid)
        self._watch = CollectionWatch(self.open_collections, self._api, self._find_cluster)
        self._agents = AgentRoute(self._api, options.max_body)
        self._page = SearchPage()
        self._cluster = self._stated_cluster()
        self._elastic = SearchEndpoints(options, self.open_collections, self._threads, lambda: self._cluster, self._api)
        self.app = AccessMiddleware(self._application(), options, self._metrics, lambda: self._cluster)

    @property
    def failure(self) -> DragomanError | None:
        """Why the service ended by itself; none: it did not."""
        return self._threads.failure

    def _stated_cluster(self) -> Cluster | None:
        """The Elasticsearch server of options, first collection, or store. Raises BadInput: it is no server."""
        stated = without_credentials(self._options.elastic)
        if stated and not (urlsplit(stated).scheme in SCHEMES and urlsplit(stated).hostname):
            raise BadInput(f"{stated!r} is no Elasticsearch server; give --elastic https://HOST:9200")
        urls = [self._options.elastic, *(row.place(self._options.settings) for row in self.open_collections.rows())]
        url = next(
            (candidate for candidate in [*urls, self._options.settings.store] if urlsplit(candidate).scheme in SCHEMES),
            None,
        )
        if url is None:
            return None
        parsed = urlsplit(url)
        credentials = Credentials.read(url) if parsed.username else self._options.settings.credentials
        server = f"{parsed.scheme}://{parsed.netloc.rpartition('@')[2]}"
        return Cluster(server, credentials, self._options.seconds, self._metrics)

    def _find_cluster(self) -> None:
        """Know the cluster of a collection that was attached after the service began, if none was known before."""
        self._cluster = self._cluster or self._stated_cluster()

    def _application(self) -> FastAPI:
        app = FastAPI(
            title="Dragoman",
            summary="A query in one language finds documents in any language.",
            version=version("dragoman"),
            docs_url=None,  # FastAPI's documentation pages load scripts from another host
            redoc_url=None,
            redirect_slashes=False,
            lifespan=self._lifespan,
        )
        app.include_router(self._api.router(tokens=bool(self._options.tokens)))
        app.get("/metrics", include_in_schema=False)(self._api.metrics)
        app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)(self._front_page)
        app.head("/api/health", include_in_schema=False)(self._api.health)
        app.head("/api/ready", include_in_schema=False)(self._api.ready)
        app.router.routes.append(self._agents)
        app.api_route(
            "/{path:elastic}", methods=["GET", "POST", "PUT", "DELETE", "HEAD"], include_in_schema=False, name="elastic"
        )(self._elastic.answer)
        for kind in (DragomanError, Refused, Exception):
            app.add_exception_handler(kind, _refuse)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _http)
        return app

    async def _front_page(self, request: Request) -> Response:
        if is_elastic(request.scope):
            return await self._elastic.answer(request)
        return await self._page.answer(request)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self._watch.start()
        if self._log is not None:
            self._log.start()
        async with self._agents.manager.run():
            yield
        self._watch.close()
        await asyncio.to_thread(self.close)
        if self._cluster:
            await self._cluster.close()

    def close(self) -> None:
        """End searches, write the rest of the query log, and close the collections."""
        self._threads.close()
        if self._log is not None:
            self._log.close()
        self.open_collections.close()


async def _refuse(_: Request, error: Exception) -> Response:
    return refusals.answer(error, unfit=409)  # it is as /openapi.json says


async def _invalid(request: Request, error: Exception) -> Response:
    errors = error.errors() if isinstance(error, RequestValidationError) else []
    is_json = "json" in request.headers.get("content-type", "")
    problems = "; ".join(_problem(problem, is_json=is_json) for problem in errors[:5])
    sentence = f"the request is not as /openapi.json says ({problems})".encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": sentence}, 422)  # a name in it may have half of a surrogate pair


def _problem(problem: Mapping[str, Any], *, is_json: bool) -> str:
    place = problem["loc"]
    if problem["type"] == "json_invalid":
        return f"the body is no JSON from character {place[1]} on"
    if place == ("body",) and problem["input"] is not None and not is_json:
        return "the body is read as JSON only with the header Content-Type: application/json"
    return f"{'.'.join(map(str, place[1:])) or 'the body'}: {problem['msg']}"


async def _http(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    sentences = {404: "there is nothing at this path", 405: "this path does not take that method"}
    return JSONResponse({"error": sentences.get(status, "the request can't be read")}, status, headers)


class SearchPage:
    """The page as one file, and its policy with the hashes of the page's style and script.

    Attributes:
        sentences: what the page says, by language and by the sentence's name; ``stop`` are words of grammar, which are
            not marked in passages.
    """

    def __init__(self) -> None:
        folder = files("query.web_server") / "page"
        self.sentences: dict[str, dict[str, str]] = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
        script = "".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
        data = json.dumps(self.sentences, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        html = (folder / "page.html").read_text(encoding="utf-8")
        html = html.replace("<style></style>", f"<style>{(folder / 'page.css').read_text(encoding='utf-8')}</style>")
        html = html.replace("<script></script>", f"<script>{script}</script>")
        self.html = html.replace('id="sentences"></script>', f'id="sentences">{data}</script>')
        self._packed = gzip.compress(self.html.encode(), mtime=0)
        policy = "; ".join(
            (
                "default-src 'none'",
                f"style-src {_hashes(self.html, 'style')}",
                f"script-src {_hashes(self.html, 'script')}",
                "connect-src 'self'",
                "img-src data:",
                "form-action 'self'",
                "base-uri 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            )
        )
        self._headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}

    async def answer(self, request: Request) -> Response:
        """The page as a response with its policy, compressed where the browser reads that."""
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.html, headers=self._headers, media_type="text/html")
        return Response(self._packed, headers={**self._headers, "Content-Encoding": "gzip"}, media_type="text/html")


def _hashes(html: str, tag: str) -> str:
    elements = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(sha256(element.encode()).digest()).decode()}'" for element in elements)
