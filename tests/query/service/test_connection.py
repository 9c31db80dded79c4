"""Slow, endless and many connections: each is given up, and none of them keeps others out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from query.service import connection, middleware
from tests.conftest import until
from trials.service_attacks import ENDLESS, HALF, HEALTH, closed, connected, endless


def rest(opened: socket.socket) -> bytes:
    """What comes until the other side closes."""
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        parts.extend(iter(lambda: opened.recv(65_536), b""))
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api/health HTTP/1.1\r\nHost: loc",
        HALF.replace(b"length: 9", b"length: 9000000").replace(b"Length: 9\r", b"Length: 9000000\r"),
    ],
    ids=["nothing", "half a head", "the rest of a refused body"],
)
def test_a_request_that_does_not_come_is_not_waited_for(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.2)
    with connected(service) as opened:
        opened.sendall(sent)
        if b"9000000" in sent:
            until(lambda: opened.recv(65_536, socket.MSG_PEEK).startswith(b"HTTP/1.1 413"))
            opened.sendall(b"x")
        answers = rest(opened)
        assert answers.count(b"HTTP/1.1") == sent.count(b"\r\n\r\n")


def test_half_a_second_request_is_not_waited_for(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.2)
    with connected(service) as opened:
        opened.sendall(HEALTH)
        until(lambda: b"ok" in opened.recv(65_536, socket.MSG_PEEK))
        opened.sendall(b"GET /api/hea")
        assert rest(opened).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("begun", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_not_taken(service: httpx.Client, begun: bytes) -> None:
    assert endless(service, begun) == ""


def test_long_headers_are_refused_in_a_sentence(service: httpx.Client) -> None:
    with connected(service) as opened:
        opened.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"a" * connection._HEAD_BYTES)
        answer = rest(opened)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"headers are too long" in answer


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Small bounds: ten connections, six of them of one address, four of these with requests."""
    for name, value in (("_CONNECTIONS", 10), ("_CONNECTIONS_OF_ADDRESS", 6), ("_SPARE", 2)):
        monkeypatch.setattr(connection, name, value)
    with ExitStack() as stack:
        yield stack


def test_idle_connections_keep_nobody_out(service: httpx.Client, few: ExitStack) -> None:
    idle = [few.enter_context(connected(service, f"127.0.0.{2 + at % 3}")) for at in range(40)]
    until(lambda: sum(not closed(opened) for opened in idle) <= 10)
    for source in ("127.0.0.1", "127.0.0.2"):
        with connected(service, source) as opened:
            opened.sendall(HEALTH.replace(b"health", b"ready"))
            assert opened.recv(65_536).startswith(b"HTTP/1.1 200 ")
    assert service.get("/api/collections").status_code == 200
    assert not closed(idle[-1])


def test_an_address_without_room_is_told_and_health_is_answered(
    service: httpx.Client, few: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "_BODY_WITHIN", 30.0)
    for _ in range(4):
        few.enter_context(connected(service, "127.0.0.2")).sendall(HALF)

    def answer(path: bytes, source: str) -> bytes:
        with connected(service, source) as opened:
            opened.sendall(HEALTH.replace(b"/api/health", path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            return rest(opened)

    until(lambda: answer(b"/api/collections", "127.0.0.2").startswith(b"HTTP/1.1 503 "))
    refused = answer(b"/demo/_count", "127.0.0.2").lower()
    assert b"too many requests" in refused
    assert b"retry-after: 1" in refused
    assert b"x-elastic-product" in refused
    assert answer(b"/api/health", "127.0.0.2").startswith(b"HTTP/1.1 200 ")
    assert answer(b"/api/collections", "127.0.0.3").startswith(b"HTTP/1.1 200 ")
    for _ in range(4):
        few.enter_context(connected(service, "127.0.0.4")).sendall(HALF)
    until(lambda: answer(b"/api/collections", "127.0.0.3").startswith(b"HTTP/1.1 503 "))
    assert answer(b"/api/ready", "127.0.0.3").startswith(b"HTTP/1.1 200 ")


def test_health_does_not_wait_for_a_body(service: httpx.Client) -> None:
    with connected(service) as opened:
        opened.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"))
        assert opened.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_is_given_up(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ports, lost = [], connection.BoundedConnection.connection_lost

    def noting(this: connection.BoundedConnection, error: Exception | None) -> None:
        ports.append(this.client and this.client[1])
        lost(this, error)

    monkeypatch.setattr(connection.BoundedConnection, "connection_lost", noting)
    monkeypatch.setattr(connection, "_UNREAD_SECONDS", 0.2)
    with connected(service) as opened:
        opened.settimeout(1)
        with suppress(TimeoutError, ConnectionError):
            opened.sendall(HEALTH.replace(b"/api/health", b"/openapi.json") * 2000)
        until(lambda: opened.getsockname()[1] in ports)
