"""Connections to Elasticsearch: one that it does not read any more is dropped, and a lost read is asked again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from indexer.cluster.cluster_address import Credentials
from indexer.collection.settings import Settings
from query.service import cluster_connection
from query.service.cluster_connection import Cluster
from query.service.refusals import Refused
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from query.web_server.request_checks import AccessMiddleware

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
WRONG = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"
KNOWN = b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"username":"a"}'
TOO_LONG = b'HTTP/1.1 400 Bad Request\r\nContent-Length: 45\r\n\r\n{"error":"too_long_http_header_exception..."}'
Answer = Callable[[int, int], bytes]


async def with_server(answer: Answer, act: Callable[[Cluster], Awaitable[None]]) -> list[tuple[int, int]]:
    """Act on a server that answers by the numbers of the connection and of its request; both of each request.

    No bytes stand for a connection that ends without an answer.
    """
    asked: list[tuple[int, int]] = []
    connections = 0

    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        connection, request, answered = connections, 0, b"any"
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while answered and await reader.readuntil(b"\r\n\r\n"):
                request += 1
                asked.append((connection, request))
                answered = answer(connection, request)
                writer.write(answered)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        cluster = Cluster(f"http://127.0.0.1:{port}", Credentials(), 5.0, Metrics())
        await act(cluster)
        await cluster.close()
        await asyncio.gather(*served)
    return asked


async def read(cluster: Cluster) -> int:
    status, _, _ = await cluster.send("GET", "/_count", {}, b"", "")
    return status


def test_a_connection_that_the_server_stopped_reading_is_dropped() -> None:
    statuses = []

    async def act(cluster: Cluster) -> None:
        statuses.extend([await read(cluster) for _ in range(3)])

    def answer(connection: int, request: int) -> bytes:
        return TOO_LONG if (connection, request) == (1, 2) else OK

    assert asyncio.run(with_server(answer, act)) == [(1, 1), (1, 2), (2, 1)]
    assert statuses == [200, 400, 200]


def test_a_lost_search_is_asked_again_by_a_new_connection() -> None:
    async def act(cluster: Cluster) -> None:
        assert [await read(cluster) for _ in range(2)] == [200, 200]

    asked = asyncio.run(with_server(lambda _, request: b"" if request == 2 else OK, act))
    assert asked == [(1, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [("/" + "a" * 4000, {}, 414), ("/_count", {"accept": "ü"}, 400), ("/_count", {"x-opaque-id": "²"}, 400)],
)
def test_what_elasticsearch_would_not_read_is_not_sent(target: str, headers: dict[str, str], status: int) -> None:
    async def act(cluster: Cluster) -> None:
        with pytest.raises(Refused) as refused:
            await cluster.send("GET", target, headers, b"", "")
        assert refused.value.status == status

    assert asyncio.run(with_server(lambda *_: OK, act)) == []


def test_the_same_credentials_are_asked_about_once_however_many_requests_have_them() -> None:
    async def act(cluster: Cluster) -> None:
        access = checking(cluster)
        await asyncio.gather(*(access("right") for _ in range(20)))
        await access("right")

    assert asyncio.run(with_server(lambda *_: KNOWN, act)) == [(1, 1)]


def checking(cluster: Cluster) -> Callable[[str], Awaitable[None]]:
    """Refuses credentials, of one address, as a service does."""

    async def none(*_: object) -> None:
        raise AssertionError("no request is answered")

    access = AccessMiddleware(none, ServiceOptions(Settings.read()), Metrics(), lambda: cluster)
    return lambda authorization: access._check_with_cluster(cluster, authorization, "127.0.0.1")


def test_wrong_credentials_keep_no_right_ones_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that have to be checked again, however many others were checked meanwhile."""
    monkeypatch.setattr(cluster_connection, "_BELIEVED_SECONDS", 0.0)
    monkeypatch.setattr(cluster_connection, "_MAX_KNOWN", 5)
    right = True
    statuses: set[int] = set()

    async def act(cluster: Cluster) -> None:
        nonlocal right
        access = checking(cluster)
        for _ in range(30):
            await access("right")
        right = False
        while 429 not in statuses:
            with pytest.raises(Refused) as refused:
                await access(f"wrong {len(statuses)} {time.monotonic()}")
            statuses.add(refused.value.status)
        right = True
        await access("right")
        right = False
        with pytest.raises(Refused) as refused:
            await access("right")
        assert refused.value.status == 401
        with pytest.raises(Refused) as refused:
            await access("right")  # it was wrong at last
        assert refused.value.status == 429

    asyncio.run(with_server(lambda *_: KNOWN if right else WRONG, act))
    assert statuses == {401, 429}


def test_credentials_are_not_wrong_because_the_server_is_busy() -> None:
    busy = b"HTTP/1.1 429 Too Many\r\nContent-Length: 2\r\n\r\n{}"

    async def act(cluster: Cluster) -> None:
        with pytest.raises(Refused, match="does not answer"):
            await cluster.accepts("Basic eA==")
        assert await cluster.accepts("Basic eA==")

    asyncio.run(with_server(lambda _, request: busy if request == 1 else KNOWN, act))


def test_an_answer_of_any_length_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.service.cluster_connection._MOST_ANSWERED", 1_000_000)
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n" + b" " * 1_000_001

    async def act(cluster: Cluster) -> None:
        with pytest.raises(Refused, match="more than 1 MB; ask for fewer documents or fields") as refused:
            await read(cluster)
        assert refused.value.status == 400
        assert await read(cluster) == 200

    assert asyncio.run(with_server(lambda connection, _: long if connection == 1 else OK, act)) == [(1, 1), (2, 1)]
