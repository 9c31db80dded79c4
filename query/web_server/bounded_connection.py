"""A caller's connection: bounds of time, size and number around uvicorn's protocol, which has none of its own."""

import asyncio
import json
from collections.abc import Iterable
from weakref import WeakValueDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_CONNECTIONS = 800
"""Connections at once. A process may usually open 1,024 files; the rest are for databases, stores and Elasticsearch."""
_CONNECTIONS_OF_ADDRESS = 400
"""Connections of one address at once: half of all, as behind a proxy every caller has the proxy's address."""
_SPARE = 20
"""Connections, overall and per address, that are kept free for health checks; other requests get 503."""
_PIPELINED = 8
"""Requests of a connection that may wait until earlier ones are answered; the connection is closed at one more."""
_HEAD_SECONDS = 20.0
"""Seconds until a request's headers must be complete, from the connection or from the first byte after an answer."""
_HEAD_BYTES = 24_000
"""Bytes of request line and headers that are read before they are complete; ``middleware`` bounds complete ones."""
_UNREAD_SECONDS = 30.0
"""Seconds in which a caller must read an answer, besides those of ``_READ_RATE``."""
_READ_RATE = 10_000
"""Bytes a second that a caller must read of a large answer."""

_SENTENCE = json.dumps({"error": "the request's headers are too long; send fewer and shorter headers"}).encode()
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)
CROWDED = "crowded"
"""Name in a request's state: true if too many requests, of all or of its address, are being answered."""


class _Group:
    """The connections of an address, or all of a server."""

    def __init__(self) -> None:
        self.open = 0  # number of them
        self.replaceable: dict[BoundedConnection, None] = {}  # wait for a request or for their reader, longest first

    @property
    def at_work(self) -> int:
        """Number of connections whose request is being answered, and whose caller reads."""
        return self.open - len(self.replaceable)


_groups: WeakValueDictionary[tuple[ServerState, str | None], _Group] = WeakValueDictionary()
"""Groups that have connections, by server and address; without an address: of all."""


class BoundedConnection(HttpToolsProtocol):
    """A connection, closed when its caller is too slow, or when others need its place.

    Beyond the bounds a new connection takes the place of the connection that waited longest for a request or for its
    caller to read. So neither connections without requests nor unread answers keep others out.
    """

    _own_groups: tuple[_Group, ...] = ()
    _unparsed_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    @property
    def _at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _bounded_groups(self) -> Iterable[tuple[_Group, int]]:
        """The connections of this address, and all, each with the bound."""
        return zip(self._own_groups, (_CONNECTIONS_OF_ADDRESS, _CONNECTIONS), strict=False)

    def _sort(self) -> None:
        """Sort the connection among those that others may replace, or out of them."""
        for group in self._own_groups:
            if self.flow.write_paused or not self._at_work:
                group.replaceable.setdefault(self)
            else:
                group.replaceable.pop(self, None)

    def _leave(self) -> None:
        for group in self._own_groups:
            group.open -= 1
            group.replaceable.pop(self, None)
        self._own_groups = ()

    def _abort(self) -> None:
        """Close the connection; its place is free at once."""
        self._leave()
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time for the first request, and make room if there are too many connections."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # writing is paused as long as anything is unread
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)
        addresses = (self.client[0] if self.client else "", None)
        self._own_groups = tuple(_groups.setdefault((self.server_state, address), _Group()) for address in addresses)
        for group in self._own_groups:
            group.open += 1
        self._sort()
        for group, bound in self._bounded_groups():
            if group.open > bound:
                next(iter(group.replaceable), self)._abort()  # noqa: SLF001

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._leave()
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
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
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        """Begin to answer a request, and note whether there is room for it."""
        self._unparsed_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if len(self.pipeline) >= _PIPELINED:
            self._abort()
        if self.transport.is_closing():  # the parser goes on to the end of what has come
            return
        self.scope["state"][CROWDED] = any(group.at_work >= bound - _SPARE for group, bound in self._bounded_groups())
        super().on_headers_complete()
        self._sort()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unparsed_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._sort()

    def pause_writing(self) -> None:
        """Start the time for reading an answer."""
        super().pause_writing()
        seconds = _UNREAD_SECONDS + self.transport.get_write_buffer_size() / _READ_RATE
        self._unread_timer = self.loop.call_later(seconds, self.transport.abort)
        self._sort()

    def resume_writing(self) -> None:
        """Stop that time: all is read."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        self._sort()
