"""A caller's connection: bounds of time, size and number around uvicorn's protocol, which has none of its own."""

from __future__ import annotations

import asyncio
import json
import time

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CONNECTIONS = 800
"""Connections at once. A process may usually open 1,024 files; the rest are for databases, stores and Elasticsearch."""
_CONNECTIONS_OF_ADDRESS = 400
"""Connections of one address at once: half of all, as behind a proxy every caller has the proxy's address."""
_SPARE = 20
"""Connections, of all and of an address, that requests never take: a request for health comes by one of them."""
_HEAD_SECONDS = 20.0
"""Seconds until a request's headers must be complete, from the connection or from the first byte after an answer."""
_HEAD_BYTES = 24_000
"""Bytes of request line and headers that are read before they are complete; ``middleware`` bounds complete ones."""
_UNREAD_SECONDS = 30.0
"""Seconds in which a caller must read some of an answer."""

_SENTENCE = json.dumps({"error": "the request's headers are too long; send fewer and shorter headers"}).encode()
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)
CROWDED = "crowded"
"""Name in a request's state: true if too many requests, of all or of its address, are being answered."""


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed when its caller is too slow, or when others need its place.

    A new connection beyond the bounds takes the place of the connection that waited longest for a request. So
    connections without requests keep nobody out.
    """

    _waiting_since = 0.0
    _unparsed_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    @property
    def _at_work(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _groups(self) -> list[tuple[list[BoundedConnection], int]]:
        """All connections, and those of this address, each with its bound."""
        connections = [connection for connection in self.connections if isinstance(connection, BoundedConnection)]
        address = self._address
        of_address = [connection for connection in connections if connection._address == address]  # noqa: SLF001
        return [(connections, _CONNECTIONS), (of_address, _CONNECTIONS_OF_ADDRESS)]

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time for the first request, and close the connection that waited longest if there are too many."""
        super().connection_made(transport)
        self._waiting_since = time.monotonic()
        self._start_head_timer()
        for connections, bound in self._groups():
            waiting = [
                connection
                for connection in connections
                if connection is not self and not connection._at_work  # noqa: SLF001
            ]
            if len(connections) > bound and waiting:
                longest = min(waiting, key=lambda connection: connection._waiting_since)  # noqa: SLF001
                self.connections.discard(longest)
                longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_head_timer()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a part of a request; refuse endless headers, trailers and chunk extensions."""
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unparsed_bytes > _HEAD_BYTES:
            if not self._at_work:
                self.transport.write(_TOO_LONG)
                self.transport.close()
            else:
                self.transport.abort()
        elif not self._at_work and self._head_timer is None:
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        """Begin to answer a request, and note whether there is room for it."""
        self._unparsed_bytes = 0
        self._stop_head_timer()
        self.scope["state"][CROWDED] = any(
            sum(connection._at_work for connection in connections) >= bound - _SPARE  # noqa: SLF001
            for connections, bound in self._groups()
        )
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unparsed_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, and see that the caller reads the answer."""
        self._waiting_since = time.monotonic()
        super().on_response_complete()
        self._watch_reading()

    def _watch_reading(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(_UNREAD_SECONDS, self._check_reading, unread) if unread else None

    def _check_reading(self, previous: int) -> None:
        if self.transport.get_write_buffer_size() >= previous:
            self.transport.abort()
        else:
            self._watch_reading()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
