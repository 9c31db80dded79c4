"""Checks of each request before its handler runs (size, host, origin, token, rate), and the headers of each answer."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from hashlib import sha256

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query.service import refusals
from query.service.access import Caller, RateLimiter, matching_token
from query.service.api_messages import RepeatedName, unique_names
from query.service.cluster_connection import Cluster
from query.service.refusals import UNREADABLE_PATH, Refused
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from query.web_server.bounded_connection import CROWDED

_PUBLIC_PATHS = frozenset({"/api/health", "/api/ready"})
"""Paths that need no token: orchestrators have none, and these answers say nothing of a document."""
_BODY_WITHIN = 20.0
"""Seconds in which a body must come, besides those of ``_BODY_RATE``."""
_BODY_RATE = 100_000
"""Bytes a second in which a large body must come."""
_MAX_TARGET = 8000
"""Bytes of path and parameters: as many as usual proxies take."""
_MAX_HEADER = 8000
_MAX_HEADERS = 15_000
"""Bytes of all headers. Elasticsearch reads 16,384 with those that the service adds, and stops reading after more."""
_HEADER_PUNCTUATION = len(b": \r\n")
_CREDENTIALS = re.compile(rb"[!-~][ -~]*")
_WRONG_A_MINUTE = 60
"""Wrong credentials a minute that an address may send. A cluster checks a password in about a tenth of a second."""
_LENGTH_DIGITS = 18
OWN_PATHS = r"(?:api(?:/.*)?|mcp/?|metrics|openapi\.json)"
"""Pattern of the paths that are the service's own, without the first slash; all others are Elasticsearch's."""
_OWN_PATH = re.compile(f"/{OWN_PATHS}", re.DOTALL)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_logger = logging.getLogger("dragoman.service")
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
        self, app: ASGIApp, options: ServiceOptions, metrics: Metrics, cluster: Callable[[], Cluster | None]
    ) -> None:
        """Wrap an application, which answers the requests that pass; the cluster, if any, may vouch for callers."""
        self._app, self._options, self._metrics, self._cluster = app, options, metrics, cluster
        self._rate_limiter, self._wrong_credentials = RateLimiter(options.rate), RateLimiter(_WRONG_A_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to the application; every failure is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, answered = time.perf_counter(), 0, False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(sent for sent in _HEADERS if sent[0] not in present)]
                if status >= 400 and scope["state"].get(CROWDED):
                    message["headers"].append((b"connection", b"close"))
            await send(message)
            answered = message["type"] == "http.response.body" and not message.get("more_body")

        try:
            await self._serve(scope, receive, send_with_headers)
        except Exception as error:
            if status and not answered:
                raise  # the server closes the connection
            if status:
                _logger.debug("a failure was answered", exc_info=error)  # Starlette raises it again
            else:
                answer = refusals.elastic_answer if is_elastic(scope) else refusals.answer
                await answer(error)(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "refused")
            self._metrics.requests.labels(route, str(status or 500)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - begun)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        public = scope["path"] in _PUBLIC_PATHS
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        try:
            scope["state"]["caller"] = await self._admit(scope, public=public)
            received = receive
            if not public:
                body = await self._body(scope, receive)
                if not is_elastic(scope):
                    _refuse_repeated_names(body)
                received = _replayed(body, receive)
        except Refused as refused:
            self._metrics.refused.labels(str(refused.status)).inc()
            raise
        await self._app(scope, received, send)

    async def _admit(self, scope: Scope, *, public: bool) -> Caller:
        headers = dict(scope["headers"])
        for name in (b"host", b"authorization"):
            if [sent for sent, _ in scope["headers"]].count(name) > 1:
                raise Refused(400, f"the header {name.decode().capitalize()} stands twice; send it once")
        host = headers.get(b"host", b"").decode("latin-1")
        elastic, address = is_elastic(scope), (scope.get("client") or ("unknown",))[0]
        _check_sizes(scope)
        if elastic and not scope["path"].isprintable():  # a route ends with "$", which a last line feed may follow
            raise Refused(400, UNREADABLE_PATH)
        host_name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._options.hosts and host_name.strip("[]").lower() not in self._options.hosts:  # against DNS rebinding
            raise Refused(421, "the service is not known by this host name; see dragoman serve --allow-host")
        _check_origin(headers, host, reads=scope["method"] in _SAFE_METHODS)
        if public:
            return Caller(address)
        if scope["state"].get(CROWDED):
            raise Refused(503, "too many requests are being answered; try again", 1.0)
        authorization = headers.get(b"authorization")
        if authorization is not None and not _CREDENTIALS.fullmatch(authorization):
            raise Refused(401, "the Authorization header can't be read; send Bearer TOKEN, or leave the header out")
        caller = await self._caller((authorization or b"").decode("ascii"), address, elastic=elastic)
        if wait := self._rate_limiter.wait(caller.name):
            raise Refused(429, f"{self._options.rate} requests a minute are allowed; wait a little", wait)
        return caller

    async def _caller(self, authorization: str, address: str, *, elastic: bool) -> Caller:
        cluster = self._cluster() if elastic and authorization else None
        if not self._options.tokens:
            if cluster is None or not await cluster.secured():
                return Caller(address)
            await self._check_with_cluster(cluster, authorization, address)
            return Caller(address, authorization)
        if (token := matching_token(self._options.tokens, authorization)) is not None:
            return Caller(token.name)
        if cluster is not None:
            await self._check_with_cluster(cluster, authorization, address)
            return Caller(f"cluster {sha256(authorization.encode()).hexdigest()}", authorization)
        if authorization:
            self._count_wrong(address)
        raise Refused(401, "a token is needed: Authorization: Bearer TOKEN, or basic auth with it as the password")

    async def _check_with_cluster(self, cluster: Cluster, authorization: str, address: str) -> None:
        """Refuse credentials that the cluster does not accept; credentials that are new to it may be wrong."""
        new, wrong = not cluster.knows(authorization), False
        if new:
            self._count_wrong(address)  # before the answer, as many may be sent at once
        try:
            wrong = not await cluster.accepts(authorization)
        finally:
            if new and not wrong:
                self._wrong_credentials.give_back(address)
        if wrong:
            raise Refused(401, "neither the service nor Elasticsearch accepts these credentials; send others")

    def _count_wrong(self, address: str) -> None:
        if wait := self._wrong_credentials.wait(address):
            raise Refused(429, "too many wrong credentials came from this address; wait a little", wait)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body of a request, in bytes; the options bound its size."""
        max_bytes = self._options.max_body
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _LENGTH_DIGITS or int(length) > max_bytes:
            raise Refused(413, f"a request's body may have {max_bytes:,} bytes")
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_WITHIN + (int(length) or max_bytes) / _BODY_RATE):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request ended before its body did")
                    body += message.get("body", b"")
                    if len(body) > max_bytes:
                        raise Refused(413, f"a request's body may have {max_bytes:,} bytes")
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refused(408, "the request's body did not come in time") from None


def _refuse_repeated_names(body: bytes) -> None:
    try:
        json.loads(body, object_pairs_hook=unique_names)
    except RepeatedName as error:
        raise Refused(400, f"the body is no JSON that can be read ({error})") from None
    except (ValueError, RecursionError):  # whoever reads the body says so
        return


def is_elastic(scope: Scope) -> bool:
    """Whether a request is for Elasticsearch: at a path that is not the service's own, or at ``/`` by no browser."""
    path = scope["path"]
    if path == "/":
        accept = dict(scope["headers"]).get(b"accept", b"")
        return b"json" in accept and b"html" not in accept
    return not _OWN_PATH.fullmatch(path)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that returns the body already read first, and then the messages of the original."""
    undelivered: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_once() -> Message:
        return undelivered.pop() if undelivered else await receive()

    return receive_once


def _check_sizes(scope: Scope) -> None:
    """Refuse a long path and long headers, before anything is asked or passed on."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > _MAX_TARGET:
        raise Refused(414, f"path and parameters may have {_MAX_TARGET:,} bytes; put what is long into the body")
    sizes = [len(name) + len(value) + _HEADER_PUNCTUATION for name, value in scope["headers"]]
    if max(sizes, default=0) > _MAX_HEADER or sum(sizes) > _MAX_HEADERS:
        raise Refused(431, f"a header may have {_MAX_HEADER:,} bytes and all together {_MAX_HEADERS:,}; send less")


def _check_origin(headers: Mapping[bytes, bytes], host: str, *, reads: bool) -> None:
    """Refuse what a page of another site sends in its visitor's name (cross-site request forgery).

    Browsers send these headers, programs neither. Requests that ``reads`` are let pass: browsers close their answers.
    """
    if reads:
        return
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None:
        own = site in {b"same-origin", b"none"}
    else:
        own = origin is None or (bool(host) and origin.decode("latin-1").partition("://")[2].lower() == host.lower())
    if not own:
        raise Refused(403, "a page of another site may not ask this; ask from the service's own page, or by a program")
