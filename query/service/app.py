"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from encoders.errors import DragomanError
from query import __version__
from query.service import refusals
from query.service.api import Api
from query.service.desk import Desk, Refused
from query.service.guard import Guard
from query.service.metrics import Metrics
from query.service.options import ServiceOptions
from query.service.page import Page
from query.service.query_log import QueryLog
from query.service.shelf import Shelf


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
        self._shelf = Shelf(
            options.settings, options.collections, options.device, hybrid=options.hybrid, metrics=self._metrics
        )
        self._desk = Desk(options.threads, options.waiting, options.seconds, self._metrics)
        self._log = QueryLog(self._shelf.engine, options.log_days, self._metrics) if options.log else None
        self._api = Api(self._shelf, self._desk, self._metrics, self._log, hybrid=options.hybrid)
        self._page = Page()
        self.fastapi = self._made()
        self.app = Guard(self.fastapi, options, self._metrics)

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
        app.get("/", include_in_schema=False)(self._page.answer)
        for kind in (DragomanError, Refused, Exception):
            app.add_exception_handler(kind, _refuse)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _http)
        return app

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        names = self._shelf.names()
        self._api.state = dict.fromkeys(names, "opening")
        threading.Thread(target=self._warm, args=(names,), name="opening", daemon=True).start()
        yield
        await asyncio.to_thread(self.close)

    def _warm(self, names: list[str]) -> None:
        for name in names:
            try:
                self._shelf.warm(name)
                said = "ready"
            except DragomanError as error:
                said = str(refusals.refusal(error))
            self._api.state = {**self._api.state, name: said}

    def close(self) -> None:
        """End what runs, keep what was to be kept."""
        self._desk.close()
        if self._log is not None:
            self._log.close()
        self._shelf.close()


async def _refuse(_: Request, error: Exception) -> Response:
    return refusals.answer(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert_ = error.errors() if isinstance(error, RequestValidationError) else []
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:])) or 'the body'}: {one['msg']}" for one in assert_[:5])
    return JSONResponse({"error": f"the request is not as /openapi.json says ({said})"}, 422)


async def _http(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    said = {404: "there is nothing at this path", 405: "this path does not take that method"}
    return JSONResponse({"error": said.get(status, "the request can't be read")}, status, headers)
