"""The Elasticsearch cluster: it answers searches without the clause, and vouches for callers by their credentials."""

import asyncio
import base64
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from hashlib import sha256

import httpx

from indexer.cluster.cluster_address import Credentials
from query.service.refusals import Refused
from query.service.service_metrics import Metrics

_SENT_HEADERS = ("content-type", "accept", "x-opaque-id")
_RETURNED_HEADERS = ("content-type", "x-elastic-product", "warning", "x-opaque-id")
_AUTHENTICATE_PATH = "/_security/_authenticate"
_BELIEVED_SECONDS = 60.0
"""Seconds until credentials are checked again."""
_MAX_KNOWN = 1000
"""Right credentials that are remembered, and as many wrong ones, which can't drive right ones out."""
MAX_TARGET = 4000
"""Bytes of a path with its parameters. Elasticsearch reads 4,096 of a request's first line, unless it is set higher."""
_MOST_ANSWERED = 100_000_000
"""Bytes of an answer: the service keeps an answer in memory until it is passed on."""
_STOPS_READING = b"too_long_http_"
"""In an answer of Elasticsearch that does not read its connection any more, after a long first line or long headers."""
_VISIBLE = re.compile(r"[ -~]*")


class Cluster:
    """An Elasticsearch server; ``server`` is its scheme, host, port."""

    def __init__(self, server: str, credentials: Credentials, seconds: float, metrics: Metrics) -> None:
        """Prepare the connections, with the service's credentials; a call without an answer fails after ``seconds``."""
        self.server, self._metrics = server, metrics
        self._authorization = _authorization(credentials)
        verify: ssl.SSLContext | bool = True
        if server.startswith("https"):
            verify = ssl.create_default_context(cafile=credentials.ca or None)
        plain = {"accept-encoding": "identity"}  # between neighbouring servers, compressing takes longer than sending
        client = partial(
            httpx.AsyncClient, base_url=server, timeout=seconds, verify=verify, trust_env=False, headers=plain
        )
        self._client, self._unpooled_client = client(), client(limits=httpx.Limits(max_keepalive_connections=0))
        self._asked_at: dict[bool, OrderedDict[bytes, float]] = {True: OrderedDict(), False: OrderedDict()}
        self._checks: dict[bytes, asyncio.Task[bool]] = {}
        self._secured = (-_BELIEVED_SECONDS, False)

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, authorization: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the cluster's answer to a method and ``target`` (path and parameters).

        Only ``_SENT_HEADERS`` are passed on; without an authorization the call has the service's. A call whose
        connection ends is sent again. Raises Refused: the cluster does not answer, or would not read the call.
        """
        if len(target) > MAX_TARGET:
            raise Refused(
                414, f"Elasticsearch reads {MAX_TARGET:,} bytes of path and parameters; put what is long into the body"
            )
        sent = {name: headers[name] for name in _SENT_HEADERS if name in headers}
        for name, value in sent.items():
            if not _VISIBLE.fullmatch(value):
                raise Refused(400, f"the header {name} has characters that are not ASCII; leave them out")
        if authorization or self._authorization:
            sent["authorization"] = authorization or self._authorization
        begun = time.perf_counter()
        answer = await self._ask(method, target, sent, body)
        self._metrics.upstream.observe(time.perf_counter() - begun)
        return answer

    async def _ask(
        self, method: str, target: str, sent: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            try:
                answer = await _answer(self._client, method, target, sent, body)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                answer = await _answer(self._unpooled_client, method, target, sent, body)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise _away() from None
        status, headers, content = answer
        if status < 300 and headers.get("content-type", "").startswith("text/html"):  # a proxy's page
            raise _away()
        return status, {name: headers[name] for name in _RETURNED_HEADERS if name in headers}, content

    def knows(self, authorization: str) -> bool:
        """Whether the cluster is being asked about a caller's credentials, was asked lately, or has accepted them."""
        key = _key(authorization)
        return key in self._checks or key in self._asked_at[True] or self._lately(key) is not None

    async def accepts(self, authorization: str) -> bool:
        """Whether the cluster accepts credentials, asked once in ``_BELIEVED_SECONDS``. Raises Refused: no answer."""
        key = _key(authorization)
        if (accepted := self._lately(key)) is not None:
            return accepted
        if key not in self._checks:
            self._checks[key] = asyncio.create_task(self._check(key, authorization))
            self._checks[key].add_done_callback(lambda _: self._checks.pop(key))
        return await asyncio.shield(self._checks[key])

    def _lately(self, key: bytes) -> bool | None:
        """What the cluster answered within ``_BELIEVED_SECONDS``; None: it has to be asked."""
        since = time.monotonic() - _BELIEVED_SECONDS
        answers = [accepted for accepted, asked_at in self._asked_at.items() if asked_at.get(key, since) > since]
        return answers[0] if answers else None

    async def _check(self, key: bytes, authorization: str) -> bool:
        status, _, body = await self.send("GET", _AUTHENTICATE_PATH, {}, b"", authorization)
        if status >= 500 or status == 429:
            raise _away()
        accepted = status == 200 and b'"username"' in body
        for asked_at in self._asked_at.values():
            asked_at.pop(key, None)
        self._asked_at[accepted][key] = time.monotonic()
        if len(self._asked_at[accepted]) > _MAX_KNOWN:
            self._asked_at[accepted].popitem(last=False)
        return accepted

    async def secured(self) -> bool:
        """Whether the cluster checks credentials, or lets everybody do anything. Raises Refused: no answer."""
        asked_at, secured = self._secured
        if time.monotonic() - asked_at >= _BELIEVED_SECONDS:
            status, _, _ = await self._ask("GET", _AUTHENTICATE_PATH, {}, b"")
            if status >= 500 or status == 429:
                raise _away()
            secured = status in {200, 401, 403}
            self._secured = (time.monotonic(), secured)
        return secured

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._unpooled_client.aclose()


async def _answer(
    client: httpx.AsyncClient, method: str, target: str, sent: Mapping[str, str], body: bytes
) -> tuple[int, httpx.Headers, bytes]:
    """The server's answer; a connection whose request it stopped reading ends. Raises Refused: it is too long."""
    content = bytearray()
    async with client.stream(method, target, headers=sent, content=body or None) as answer:
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > _MOST_ANSWERED:
                raise Refused(
                    400, f"Elasticsearch's answer has more than {_MOST_ANSWERED // 1_000_000} MB; ask for fewer "
                    "documents or fields, by size and _source"
                )  # fmt: skip
        if answer.status_code >= 400 and _STOPS_READING in content:
            await answer.extensions["network_stream"].aclose()
    return answer.status_code, answer.headers, bytes(content)


def _key(authorization: str) -> bytes:
    return sha256(authorization.encode()).digest()


def _away() -> Refused:
    return Refused(503, "Elasticsearch does not answer; try again", 2.0)


def _authorization(credentials: Credentials) -> str:
    if credentials.api_key:
        return f"ApiKey {credentials.api_key}"
    if credentials.user:
        pair = f"{credentials.user}:{credentials.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""
