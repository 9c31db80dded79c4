"""The service as an ASGI application, and the server that runs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from encoders.errors import DragomanError
from indexer.elastic.address import SCHEMES, Credentials
from query import __version__
from query.ranking.searcher import EmptyCollection
from query.service import refusals
from query.service.admission import Refused, SearchThreads
from query.service.elastic.endpoint import ElasticEndpoint
from query.service.metrics import Metrics
from query.service.middleware import AccessMiddleware, is_elastic
from query.service.open_collections import OpenCollections
from query.service.options import ServiceOptions
from query.service.page import SearchPage
from query.service.query_log import QueryLog
from query.service.routes import EMPTY, READY, Api
from query.service.upstream import Upstream

_EVERY = 5.0
"""Seconds between two looks at the collections."""


class Service:
    """Everything that lives as long as the service does.

    Attributes:
        app: what uvicorn runs.
    """

    def __init__(self, options: ServiceOptions) -> None:
        """Open the database; collections are opened when the application starts.

        Raises:
            BadInput: there is no collection of one of the names.
            StoreError: the database can't be opened.
        """
        self._options = options
        self._metrics = Metrics()
        self._shelf = OpenCollections(
            options.settings, options.collections, options.device, hybrid=options.hybrid, metrics=self._metrics
        )
        self._closing = threading.Event()
        self._desk = SearchThreads(options.threads, options.waiting, options.seconds, self._metrics)
        self._log = QueryLog(self._shelf.engine, options.log_days, self._metrics) if options.log else None
        self._api = Api(self._shelf, self._desk, self._metrics, self._log, hybrid=options.hybrid)
        self._page = SearchPage()
        self._upstream = self._cluster()
        self._front = ElasticEndpoint(options, self._shelf, self._desk, self._upstream, self._api)
        self.app = AccessMiddleware(self._made(), options, self._metrics, self._upstream)

    def _cluster(self) -> Upstream | None:
        """The server that is named, or else that of the first collection that is on one."""
        places = [self._options.elastic, *(row.place(self._options.settings) for row in self._shelf.rows())]
        url = next((one for one in [*places, self._options.settings.store] if urlsplit(one).scheme in SCHEMES), None)
        if url is None:
            return None
        parts = urlsplit(url)
        credentials = Credentials.read(url) if parts.username else self._options.settings.credentials
        server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return Upstream(server, credentials, self._options.seconds, self._metrics)

    def _made(self) -> FastAPI:
        app = FastAPI(
            title="Dragoman",
            summary="A query in one language finds documents in any language.",
            version=__version__,
            docs_url=None,  # those pages load their script from elsewhere
            redoc_url=None,
            lifespan=self._lifespan,
        )
        app.include_router(self._api.router())
        app.get("/metrics", include_in_schema=False)(self._api.metrics)
        app.get("/", include_in_schema=False)(self._root)
        app.api_route(
            "/{path:path}", methods=["GET", "POST", "PUT", "DELETE", "HEAD"], include_in_schema=False, name="elastic"
        )(self._front.answer)
        for kind in (DragomanError, Refused, Exception):
            app.add_exception_handler(kind, _refuse)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _http)
        return app

    async def _root(self, request: Request) -> Response:
        """The page for a browser, a greeting for an Elasticsearch client."""
        if is_elastic(request.scope):
            return await self._front.answer(request)
        return await self._page.answer()

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self._api.state = dict.fromkeys(self._shelf.names(), "opening")
        threading.Thread(target=self._look_after, name="opening", daemon=True).start()
        yield
        self._closing.set()
        await asyncio.to_thread(self.close)
        if self._upstream:
            await self._upstream.close()

    def _look_after(self) -> None:
        """Open what is not open yet, and see whether what was is still there, every few seconds."""
        while True:
            try:
                state = {name: self._api.state.get(name, "opening") for name in self._shelf.names()}
            except Exception as error:  # noqa: BLE001 - the database may be back the next time
                self._api.state = dict.fromkeys(self._api.state, str(refusals.refusal(error)))
            else:
                self._api.state = state
                for name, before in state.items():
                    self._api.state = {**self._api.state, name: self._looked(name, before)}
            if self._closing.wait(_EVERY):
                return

    def _looked(self, name: str, before: str) -> str:
        try:
            if before == READY:
                with self._shelf.searcher(name):
                    return READY
            self._shelf.warm(name)
        except EmptyCollection:
            return EMPTY
        except Exception as error:  # noqa: BLE001 - one collection that can't be opened must not hide the others
            return str(refusals.refusal(error))
        return READY

    def close(self) -> None:
        """End what runs, keep what was to be kept."""
        self._desk.close()
        if self._log is not None:
            self._log.close()
        self._shelf.close()


async def _refuse(_: Request, error: Exception) -> Response:
    return refusals.answer(error)


async def _invalid(_: Request, error: Exception) -> Response:
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:])) or 'the body'}: {one['msg']}" for one in wrong[:5])
    return JSONResponse({"error": f"the request is not as /openapi.json says ({said})"}, 422)


async def _http(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    said = {404: "there is nothing at this path", 405: "this path does not take that method"}
    return JSONResponse({"error": said.get(status, "the request can't be read")}, status, headers)


_CONNECTIONS = 1000


def server(service: Service, options: ServiceOptions, host: str, port: int) -> uvicorn.Server:
    """A server that is not begun yet: it says nothing of itself, trusts no proxy's headers, and stops in order."""
    return uvicorn.Server(
        uvicorn.Config(
            service.app,
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(options.seconds) + 1,
            limit_concurrency=_CONNECTIONS,
        )
    )
