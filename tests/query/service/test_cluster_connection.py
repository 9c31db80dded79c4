"""Connections to Elasticsearch: one that it does not read any more is dropped, and a lost read is asked again."""

import asyncio
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
    asked, served = list[tuple[int, int]](), list[asyncio.Task[None]]()

    async def serve(connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request, answered = 0, b"any"
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
        served.append(asyncio.create_task(serve(len(served) + 1, reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        cluster = Cluster(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", Credentials(), 5.0, Metrics())
        await act(cluster)
        await cluster.close()
        await asyncio.gather(*served)
    return asked


async def read(cluster: Cluster) -> int:
    return (await cluster.send("GET", "/_count", {}, b"", ""))[0]


@pytest.mark.parametrize(("second", "statuses"), [(TOO_LONG, [200, 400, 200]), (b"", [200, 200])])
def test_a_connection_that_the_server_stopped_reading_is_dropped(second: bytes, statuses: list[int]) -> None:
    """A lost search is asked again by a new one."""

    async def act(cluster: Cluster) -> None:
        assert [await read(cluster) for _ in statuses] == statuses

    assert asyncio.run(with_server(lambda _, request: second if request == 2 else OK, act)) == [(1, 1), (1, 2), (2, 1)]


def test_what_elasticsearch_would_not_read_is_not_sent() -> None:
    async def act(cluster: Cluster) -> None:
        for target, headers, status in (
            ("/" + "a" * 4000, {}, 414), ("/_count", {"accept": "ü"}, 400), ("/_count", {"x-opaque-id": "²"}, 400)
        ):  # fmt: skip
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
    answers, statuses = [KNOWN], [0]

    async def act(cluster: Cluster) -> None:
        access = checking(cluster)

        async def refused(authorization: str) -> int:
            with pytest.raises(Refused) as refusal:
                await access(authorization)
            return refusal.value.status

        for _ in range(30):
            await access("right")
        answers[0] = WRONG
        while statuses[-1] != 429:
            statuses.append(await refused(f"wrong {len(statuses)}"))
        answers[0] = KNOWN
        await access("right")
        answers[0] = WRONG
        assert [await refused("right") for _ in range(2)] == [401, 429]  # it was wrong at last

    asyncio.run(with_server(lambda *_: answers[0], act))
    assert {*statuses} == {0, 401, 429}


@pytest.mark.parametrize("status", [b"429 Too Many", b"200 OK\r\nContent-Type: text/html"], ids=["busy", "a page"])
def test_credentials_are_not_wrong_because_the_server_is_busy_or_a_proxy_answers(status: bytes) -> None:
    busy = b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % status

    async def act(cluster: Cluster) -> None:
        with pytest.raises(Refused, match="does not answer"):
            await cluster.accepts("Basic eA==")
        assert await cluster.accepts("Basic eA==")

    asyncio.run(with_server(lambda _, request: busy if request == 1 else KNOWN, act))


def test_an_answer_of_any_length_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.service.cluster_connection._MOST_ANSWERED", 1_000_000)
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n" + b" " * 1_000_001

    async def act(cluster: Cluster) -> None:
        with pytest.raises(Refused, match="more than 1 MB; ask for fewer documents or fields"):
            await read(cluster)
        assert await read(cluster) == 200

    assert asyncio.run(with_server(lambda connection, _: long if connection == 1 else OK, act)) == [(1, 1), (2, 1)]
