"""Slow, endless and many connections: each is given up, and none of them keeps others out."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from query.web_server import bounded_connection, request_checks
from tests.conftest import fallen, until
from trials.service_attacks import ENDLESS, HALF, HEALTH, closed, connected, endless, pipelined

_LARGE = 30_000_000
"""Bytes of an answer that the kernel does not take all at once."""


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
        HALF.replace(b"Length: 9\r", b"Length: 9000000\r"),
    ],
    ids=["nothing", "half a head", "the rest of a refused body"],
)
def test_a_request_that_does_not_come_is_not_waited_for(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(bounded_connection, "_HEAD_SECONDS", 0.2)
    with connected(service) as opened:
        opened.sendall(sent)
        if b"9000000" in sent:
            until(lambda: opened.recv(65_536, socket.MSG_PEEK).startswith(b"HTTP/1.1 413"))
            opened.sendall(b"x")
        answers = rest(opened)
        assert answers.count(b"HTTP/1.1") == sent.count(b"\r\n\r\n")


def test_half_a_second_request_is_not_waited_for(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "_HEAD_SECONDS", 0.2)
    with connected(service) as opened:
        opened.sendall(HEALTH)
        until(lambda: b"ok" in opened.recv(65_536, socket.MSG_PEEK))
        opened.sendall(b"GET /api/hea")
        assert rest(opened).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("begun", ENDLESS.values(), ids=ENDLESS)
def test_endless_requests_are_cut_off(service: httpx.Client, begun: bytes) -> None:
    assert endless(service, begun) == ""


def test_long_headers_are_refused_in_a_sentence(service: httpx.Client) -> None:
    with connected(service) as opened:
        opened.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"a" * bounded_connection._HEAD_BYTES)
        answer = rest(opened)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"headers are too long" in answer


def test_pipelined_requests_take_no_memory(service: httpx.Client) -> None:
    assert fallen(pipelined(service)) == []


def test_some_requests_may_be_pipelined(service: httpx.Client) -> None:
    with connected(service) as opened:
        opened.sendall(HEALTH * 8 + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert rest(opened).count(b"HTTP/1.1 200 ") == 9


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Small bounds: ten connections, six of them of one address, four of these with requests."""
    for name, value in (("_CONNECTIONS", 10), ("_CONNECTIONS_OF_ADDRESS", 6), ("_SPARE", 2)):
        monkeypatch.setattr(bounded_connection, name, value)
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
    monkeypatch.setattr(request_checks, "_BODY_WITHIN", 30.0)
    for _ in range(4):
        few.enter_context(connected(service, "127.0.0.2")).sendall(HALF)

    def answer(path: bytes, source: str) -> bytes:
        with connected(service, source) as opened:
            opened.sendall(HEALTH.replace(b"/api/health", path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            return rest(opened)

    until(lambda: answer(b"/api/collections", "127.0.0.2").startswith(b"HTTP/1.1 503 "))
    with connected(service, "127.0.0.2") as opened:  # a refused connection is closed
        opened.sendall(HEALTH.replace(b"/api/health", b"/demo/_count"))
        assert b"connection: close" in rest(opened)
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


@contextmanager
def answering() -> Iterator[tuple[httpx.Client, ServerState]]:
    """A server of large answers, at ``/wait`` of none, with the loop of ``dragoman serve``; and its state."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] == "/wait":
            await receive()  # until the caller is gone
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(_LARGE)})

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        answer, http=bounded_connection.BoundedConnection, lifespan="off", ws="none", log_config=None
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
        yield client, server.server_state
    server.should_exit = True
    thread.join(60)
    listening.close()


@pytest.mark.parametrize("reads", [False, True], ids=["not read", "read slowly"])
def test_an_answer_that_is_not_read_in_time_is_given_up(reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "_UNREAD_SECONDS", 0.5)
    monkeypatch.setattr(bounded_connection, "_READ_RATE", 10 * _LARGE)
    with answering() as (client, state), connected(client) as opened:
        opened.sendall(HEALTH)
        size = len(opened.recv(1))
        with suppress(ConnectionResetError):
            while reads and (piece := opened.recv(_LARGE // 100)):
                size += len(piece)
                select.select([], [], [], 0.02)
        until(lambda: not state.connections)
        assert size < _LARGE


def test_connections_whose_answers_are_not_read_make_room(few: ExitStack) -> None:
    with answering() as (client, state):
        unread = [few.enter_context(connected(client)) for _ in range(6)]
        for opened in unread:
            opened.sendall(HEALTH * 2)  # the second one is at work until the first answer is read
            opened.recv(1)
        until(lambda: len(state.tasks) == 6)
        with connected(client) as opened:
            opened.sendall(HEALTH)
            assert opened.recv(65_536).startswith(b"HTTP/1.1 200 ")
            left = {getattr(held, "client")[1] for held in state.connections}  # noqa: B009 - not every kind has one
            assert left == {one.getsockname()[1] for one in [*unread[1:], opened]}
        few.close()


def test_a_connection_beyond_the_bound_is_closed_if_all_others_are_at_work(
    few: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_connection, "_HEAD_SECONDS", 600.0)
    with answering() as (client, state):
        for at in range(1, 7):
            few.enter_context(connected(client)).sendall(HEALTH.replace(b"/api/health", b"/wait"))
            until(lambda at=at: len(state.tasks) == at)  # type: ignore[misc]
        with connected(client) as opened:
            assert rest(opened) == b""
        with connected(client, "127.0.0.2") as opened:
            opened.sendall(HEALTH)
            assert opened.recv(65_536).startswith(b"HTTP/1.1 200 ")
        few.close()
        until(lambda: not state.connections)
        assert not [key for key in bounded_connection._groups if key[0] is state]
