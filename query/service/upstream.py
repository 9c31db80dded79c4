"""The Elasticsearch cluster that calls are passed on to, with the caller's credentials or the service's."""

from __future__ import annotations

import base64
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256

import httpx

from indexer.elastic.address import Credentials
from query.service.metrics import Metrics
from query.service.refusals import Refused

_SENT_HEADERS = ("content-type", "accept", "x-opaque-id")
_RETURNED_HEADERS = ("content-type", "x-elastic-product", "warning", "x-opaque-id")
_AUTHENTICATE_PATH = "/_security/_authenticate"
_BELIEVED_SECONDS = 60.0
"""Seconds until credentials are checked again."""
_MAX_KNOWN = 1000


class Upstream:
    """An Elasticsearch server.

    Attributes:
        server: scheme, host, port.
    """

    def __init__(self, server: str, credentials: Credentials, seconds: float, metrics: Metrics) -> None:
        """Prepare the connections, with the service's credentials; a call without an answer fails after ``seconds``."""
        self.server, self._metrics = server, metrics
        self._authorization = _authorization(credentials)
        verify: ssl.SSLContext | bool = True
        if server.startswith("https"):
            verify = ssl.create_default_context(cafile=credentials.ca or None)
        plain = {"accept-encoding": "identity"}  # between neighbouring servers, compressing takes longer than sending
        self._client = httpx.AsyncClient(
            base_url=server, timeout=seconds, verify=verify, trust_env=False, headers=plain
        )
        self._vouched: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()
        self._secured = (-_BELIEVED_SECONDS, False)

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, authorization: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the cluster's answer to a method and a target, which is path and parameters.

        Of the caller's headers only ``_SENT_HEADERS`` are passed on. Without an authorization of the caller's own the
        call has the service's.

        Raises:
            Refused: the cluster does not answer.
        """
        sent = {name: headers[name] for name in _SENT_HEADERS if name in headers}
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
            answer = await self._client.request(method, target, headers=sent, content=body or None)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise _away() from None
        returned = {name: answer.headers[name] for name in _RETURNED_HEADERS if name in answer.headers}
        return answer.status_code, returned, answer.content

    async def vouches(self, authorization: str) -> bool:
        """Whether the cluster accepts a caller's credentials; a cluster without security accepts none."""
        key = sha256(authorization.encode()).digest()
        cached = self._vouched.get(key)
        if cached and time.monotonic() - cached[0] < _BELIEVED_SECONDS:
            return cached[1]
        status, _, body = await self.send("GET", _AUTHENTICATE_PATH, {}, b"", authorization)
        vouched = status == 200 and b'"username"' in body
        self._vouched[key] = (time.monotonic(), vouched)
        while len(self._vouched) > _MAX_KNOWN:
            self._vouched.popitem(last=False)
        return vouched

    async def secured(self) -> bool:
        """Whether the cluster checks credentials; without security it takes any, and lets everybody do anything.

        Raises:
            Refused: the cluster does not answer.
        """
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


def _away() -> Refused:
    return Refused(503, "Elasticsearch does not answer; try again", 2.0)


def _authorization(credentials: Credentials) -> str:
    if credentials.api_key:
        return f"ApiKey {credentials.api_key}"
    if credentials.user:
        pair = f"{credentials.user}:{credentials.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""
