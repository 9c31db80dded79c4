"""Checks of every request before its handler runs (host, size, token, rate), and the headers of every answer."""

from __future__ import annotations

import asyncio
import time
from hashlib import sha256

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query.service import refusals
from query.service.access import Caller, RateLimiter, matching_token
from query.service.metrics import Metrics
from query.service.options import ServiceOptions
from query.service.refusals import Refused
from query.service.upstream import Upstream

_PUBLIC_PATHS = frozenset({"/api/health", "/api/ready"})
"""Paths that need no token: orchestrators have none, and these answers say nothing of a document."""
_BODY_WITHIN = 20.0
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer that does not have them already."""


class AccessMiddleware:
    """ASGI middleware that refuses requests without access and adds headers to every answer."""

    def __init__(
        self, app: ASGIApp, options: ServiceOptions, metrics: Metrics, cluster: Upstream | None = None
    ) -> None:
        """Wrap an application, which answers the requests that pass; the cluster, if any, may vouch for callers."""
        self._app, self._options, self._metrics, self._cluster = app, options, metrics, cluster
        self._rate_limiter = RateLimiter(options.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        try:
            scope.setdefault("state", {})["caller"] = await self._admit(scope)
            body = await self._body(scope, receive)
        except Refused as refused:
            self._metrics.refused.labels(str(refused.status)).inc()
            await _answer(refused, elastic=is_elastic(scope))(scope, receive, send_with_headers)
        else:
            await self._app(scope, _replayed(body, receive), send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "refused")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - begun)

    async def _admit(self, scope: Scope) -> Caller:
        headers = dict(scope["headers"])
        self._check_host(headers.get(b"host", b"").decode("latin-1"))
        path = scope["path"]
        address = (scope.get("client") or ("unknown",))[0]
        if path in _PUBLIC_PATHS:
            return Caller(address)
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        caller = await self._caller(authorization, address, elastic=is_elastic(scope))
        wait = self._rate_limiter.wait(caller.name)
        if wait:
            raise Refused(429, f"{self._options.rate} requests a minute are allowed; wait a little", wait)
        return caller

    def _check_host(self, host: str) -> None:
        """Refuse foreign host names, by which a page in a user's browser could reach the service (DNS rebinding)."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._options.hosts and name.strip("[]").lower() not in self._options.hosts:
            raise Refused(421, "the service is not known by this host name; see dragoman serve --allow-host")

    async def _caller(self, authorization: str, address: str, *, elastic: bool) -> Caller:
        if not self._options.tokens:
            elastic_credentials = (
                elastic and authorization and self._cluster is not None and await self._cluster.secured()
            )
            return Caller(address, writes=True, authorization=authorization if elastic_credentials else "")
        token = matching_token(self._options.tokens, authorization)
        if token is not None:
            return Caller(token.name, token.writes)
        if authorization:  # whoever tries tokens is bounded as any other address is
            wait = self._rate_limiter.wait(address)
            if wait:
                raise Refused(429, "too many requests; wait a little", wait)
            if elastic and self._cluster is not None and await self._cluster.vouches(authorization):
                return Caller(f"cluster {sha256(authorization.encode()).hexdigest()}", True, authorization)
        raise Refused(401, "a token is needed: Authorization: Bearer TOKEN, or basic auth with it as the password")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body of a request, in bytes; the options bound its size."""
        max_bytes = self._options.max_body
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > max_bytes:
            raise Refused(413, f"a request's body may have {max_bytes:,} bytes")
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_BODY_WITHIN):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request ended before its body did")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > max_bytes:
                        raise Refused(413, f"a request's body may have {max_bytes:,} bytes")
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, "the request's body did not come in time") from None


def is_elastic(scope: Scope) -> bool:
    """Whether a request is for Elasticsearch: at a path that is not the service's own, or at ``/`` by no browser."""
    path = scope["path"]
    if path == "/":
        accept = dict(scope["headers"]).get(b"accept", b"")
        return scope["method"] == "HEAD" or (b"json" in accept and b"html" not in accept)
    return not (path in {"/metrics", "/openapi.json"} or path.startswith("/api/"))


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that returns the body already read first, and then the messages of the original."""
    delivered = False

    async def receive_once() -> Message:
        nonlocal delivered
        if delivered:
            return await receive()
        delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_once


def _with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    present = {name for name, _ in headers}
    return [*headers, *((name, value) for name, value in _HEADERS if name not in present)]


def _answer(refused: Refused, *, elastic: bool) -> JSONResponse:
    if not elastic:
        return refusals.answer(refused)
    headers = {**refusals.headers(refused), "X-Elastic-Product": "Elasticsearch"}
    return JSONResponse(refusals.elastic_error(refused), refused.status, headers)
