"""Who may ask, how much, how often; slow, endless and many connections are given up, and keep nobody out."""

import base64
import json
import os
import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from encoders.errors import BadInput
from indexer.collection.settings import Settings
from query.service.access import RateLimiter, Token, TokenFile, read_tokens
from query.service.service_options import ServiceOptions
from query.web_server import bounded_connection, request_checks
from tests.conftest import Log, Patch, fallen, until
from trials.servers.service import serving
from trials.service_attacks import (
    ENDLESS,
    FOREIGN,
    HALF,
    HEALTH,
    SECRET,
    closed,
    connected,
    endless,
    foreign_page,
    pipelined,
    unreadable_authorizations,
    wrong_tokens,
)

ASKED = {"query": "coffee", "lang": "en"}
ME, SINGLE = Token.of("me", SECRET), Token.of("DRAGOMAN_TOKEN", f"{SECRET}1")


@pytest.fixture
def options(calibrated: Settings) -> ServiceOptions:
    return ServiceOptions(calibrated, device="cpu")


def test_a_token_is_needed_where_there_are_some(options: ServiceOptions) -> None:
    with serving(replace(options, tokens=(ME,))) as client:
        for path in ("/", "/api/collections", "/metrics", "/openapi.json", "/demo/_search", "/nowhere"):
            refused = client.get(path)
            assert refused.status_code == 401, path
            assert refused.headers["WWW-Authenticate"].startswith("Basic")
        assert client.get("/api/health").status_code == client.get("/api/ready").status_code == 200
        basic = base64.b64encode(f"anybody:{SECRET}".encode()).decode()
        for authorization in (f"Bearer {SECRET}", f"bearer {SECRET}", f"Basic {basic}"):
            headers = {"Authorization": authorization}
            assert client.post("/api/search", json=ASKED, headers=headers).status_code == 200
        for authorization in ("Bearer", f"Bearer {SECRET}x", "Basic !!", f"Digest {SECRET}", SECRET):
            assert client.post("/api/search", json=ASKED, headers={"Authorization": authorization}).status_code == 401


@pytest.mark.parametrize("tokens", [(), (ME,)], ids=["no tokens", "tokens"])
def test_an_authorization_that_cannot_be_read_is_refused(options: ServiceOptions, tokens: tuple[Token, ...]) -> None:
    with serving(replace(options, tokens=tokens, elastic="http://127.0.0.1:9")) as client:
        assert fallen(unreadable_authorizations(client)) == []


def test_no_line_feed_turns_a_path_of_the_services_own_into_elasticsearchs(options: ServiceOptions) -> None:
    """Routes end with ``$``, which a last line feed may follow; the cluster vouches for its own paths alone."""
    with serving(replace(options, tokens=(ME,), elastic="http://127.0.0.1:9")) as client:
        for path in ("/mcp%0A", "/mcp%0A/", "/mcp/%0A", "/metrics%0A", "/openapi.json%0A", "/api%0A", "/%0A"):
            for method in ("GET", "POST"):
                refused = client.request(method, path, auth=("elastic", "caller"))
                assert (refused.status_code, "can't be read" in refused.text) == (400, True)


def test_wrong_tokens_of_an_address_are_bounded_and_right_ones_pass(options: ServiceOptions) -> None:
    with serving(replace(options, tokens=(ME,))) as client:
        assert fallen(wrong_tokens(client, SECRET)) == []


def test_headers_and_paths_are_bounded_before_anything_is_asked(service: httpx.Client) -> None:
    for name in ("Authorization", "X-Opaque-Id", "Accept", "Anything"):
        for path in ("/api/collections", "/demo/_count", "/api/health"):
            refused = service.get(path, headers={name: "a" * 9000})
            assert refused.status_code == 431, (name, path)
            assert "8,000" in refused.text
    for length, count, status in ((1000, 16, 431), (1, 3000, 431), (7000, 1, 200)):
        headers = {f"X-{at}": "a" * length for at in range(count)}
        assert service.get("/api/health", headers=headers).status_code == status
    assert service.get("/demo/_search?preference=" + "a" * 9000).status_code == 414


def test_every_failure_is_answered(service: httpx.Client, monkeypatch: Patch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    for name in ("_check_origin", "_replayed"):
        with monkeypatch.context() as patch:
            patch.setattr(request_checks, name, fail)
            for path in ("/api/collections", "/demo/_search"):
                answer = service.post(path)
                assert answer.status_code == 500
                assert "its log has more under" in str(answer.json()["error"])
                assert "secret" not in answer.text
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
    with monkeypatch.context() as patch:
        patch.setattr("query.service.api_routes.Api._search", fail)
        answer = service.post("/api/search", json=ASKED)
        assert (answer.status_code, "its log has more under" in answer.text) == (500, True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tokens").write_text(f"me {SECRET}\n", encoding="utf-8")
    (tmp_path / "tokens").chmod(0o600)
    return tmp_path / "tokens"


def test_tokens_are_read_from_a_file(file: Path) -> None:
    file.write_text(f"# who\n\nme {SECRET}\nloader {SECRET}2 write\n", encoding="utf-8")
    assert read_tokens(file) == (ME, Token.of("loader", f"{SECRET}2"))
    for text, sentence in (
        ("me", "line 1 is not NAME TOKEN"),
        ("me short", "shorter than 16"),
        (f"me {SECRET} admin", "line 1 is not NAME TOKEN"),
        ("# none", "has no token"),
        (f"me {SECRET}\nyou {SECRET} write\n", "me and you have one token"),
        (f"me {SECRET}1\n", "me and DRAGOMAN_TOKEN have one token"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match=sentence):
            TokenFile(file, [SINGLE])
    file.unlink()
    with pytest.raises(BadInput, match="can't be read"):
        TokenFile(file)


def test_tokens_are_read_again_when_their_file_changes(file: Path, caplog: Log) -> None:
    tokens, before = TokenFile(file, [SINGLE]), file.stat()
    assert list(tokens) == [ME, SINGLE]
    file.write_text(f"me {SECRET[::-1]}\n", encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert next(iter(tokens)) == ME
    tokens.read_again()  # though the file seems the same
    assert next(iter(tokens)) == Token.of("me", SECRET[::-1])
    file.write_text(f"you {SECRET}2 write\n", encoding="utf-8")
    assert list(tokens) == [Token.of("you", f"{SECRET}2"), SINGLE]
    for text in ("you short\n", f"you {SECRET}1\n", "\udcff"):
        file.write_text(text, encoding="utf-8", errors="surrogateescape")
        assert list(tokens) == [Token.of("you", f"{SECRET}2"), SINGLE]
    assert caplog.text.count("the tokens stay as they were") == 3
    for without in (lambda: file.write_text("# none\n", encoding="utf-8"), file.unlink):
        without()
        assert list(tokens) == [SINGLE]
        file.write_text(f"me {SECRET}\n", encoding="utf-8")
        assert next(iter(tokens)) == ME
    assert caplog.text.count("has no token; its callers are refused") == 2


def test_a_service_whose_file_has_no_token_any_more_is_open_to_nobody(options: ServiceOptions, file: Path) -> None:
    with serving(replace(options, tokens=TokenFile(file))) as client:
        right = {"Authorization": f"Bearer {SECRET}"}
        assert client.get("/api/collections", headers=right).status_code == 200
        for without in (lambda: file.write_text("", encoding="utf-8"), file.unlink):
            without()
            assert {client.get("/api/collections", headers=sent).status_code for sent in (right, {})} == {401}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_a_tokens_file_that_others_can_read_is_said(file: Path, caplog: Log) -> None:
    for mode, said in ((0o600, False), (0o400, False), (0o644, True), (0o640, True)):
        caplog.clear()
        file.chmod(mode)
        assert TokenFile(file)
        assert ("other users can read or write the tokens' file" in caplog.text) is said


def test_too_many_requests_are_told_when_to_come_again(options: ServiceOptions) -> None:
    """A rate is each one's own."""
    limiter = RateLimiter(60)
    allowed = [limiter.wait("me") for _ in range(20)]
    assert allowed[:10] == [0.0] * 10
    assert 0 < allowed[-1] <= 1
    assert limiter.wait("you") == 0.0
    assert not any(RateLimiter(0).wait("me") for _ in range(1000))
    with serving(replace(options, rate=60)) as client:
        answers = [client.get("/api/collections") for _ in range(60)]
        assert min(int(one.headers["Retry-After"]) for one in answers if one.status_code == 429) >= 1
        assert client.get("/api/health").status_code == 200


def test_more_than_can_wait_is_refused_and_the_rest_is_answered(options: ServiceOptions) -> None:
    with serving(replace(options, threads=1, max_waiting=2)) as client:

        def ask(number: int) -> httpx.Response:
            return client.post("/api/search", json={"query": f"coffee {number}", "lang": "en", "k": 1000})

        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(ask, range(48)))
        waits = [int(one.headers["Retry-After"]) for one in answers if one.status_code == 429]
        assert min(waits) >= 1
        assert sum(one.status_code == 200 for one in answers) == 48 - len(waits) >= 3


def test_large_bodies_are_refused(options: ServiceOptions) -> None:
    with serving(replace(options, max_body=2000)) as client:
        assert client.post("/api/search", content=b"x" * 3000).status_code == 413

        def parts() -> object:
            yield from [b"x" * 500] * 6

        assert client.post("/api/search", content=parts()).status_code == 413  # type: ignore[arg-type]
        assert client.post("/api/search", json=ASKED).status_code == 200


CLOSING = b"Host: localhost\r\nConnection: close\r\n"


def test_a_body_that_does_not_come_is_not_waited_for(service: httpx.Client, monkeypatch: Patch) -> None:
    monkeypatch.setattr(request_checks, "_BODY_WITHIN", 0.2)
    answer = sent_raw(service, b"POST /api/search HTTP/1.1\r\n" + CLOSING + b"Content-Length: 9\r\n\r\nhalf")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not come in time" in answer


def test_a_large_body_has_more_time(service: httpx.Client, monkeypatch: Patch) -> None:
    monkeypatch.setattr(request_checks, "_BODY_WITHIN", 0.0)
    monkeypatch.setattr(request_checks, "_BODY_RATE", 1)
    body, headers = json.dumps(ASKED).encode(), {"Content-Type": "application/json"}

    def parts() -> Iterator[bytes]:
        yield from [body[:20], body[20:]]

    sizes: tuple[dict[str, str], ...] = ({"Content-Length": str(len(body))}, {})  # without it the body comes in chunks
    for size in sizes:
        assert service.post("/api/search", content=parts(), headers={**headers, **size}).status_code == 200


def test_only_our_host_names_are_answered(service: httpx.Client) -> None:
    """Else a page of somebody's, whose name leads to this machine, would read what its visitor's service finds."""
    for host in ("evil.example", "evil.example:8300", "127.0.0.1.evil.example", ""):
        assert service.get("/api/collections", headers={"Host": host}).status_code in {400, 421}, host
    for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:8300", "LOCALHOST"):
        assert service.get("/api/collections", headers={"Host": host}).status_code == 200, host


def test_a_page_of_somebody_elses_gets_nothing(service: httpx.Client) -> None:
    origin = {"Origin": "https://evil.example"}
    preflight = service.options("/api/search", headers={**origin, "Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 405
    answer = service.get("/api/collections", headers=origin)
    assert not [name for name in (*answer.headers, *preflight.headers) if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://localhost"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://LOCALHOST:8300", "Host": "localhost:8300"}, False),
        *((headers, True) for headers in FOREIGN),
    ],
)
def test_a_page_of_others_changes_nothing(service: httpx.Client, headers: dict[str, str], foreign: bool) -> None:
    """Its visitor's browser sends what the visitor may: also a password that the browser remembers."""
    assert {bool(fall) for fall in foreign_page(service, headers)} == {not foreign}
    assert service.get("/api/collections", headers=headers).status_code == 200
    assert service.get("/", headers={**headers, "Accept": "text/html"}).status_code == 200


def test_every_answer_carries_the_headers_that_close_it(service: httpx.Client) -> None:
    for path in ("/", "/api/collections", "/api/nowhere", "/x/y/z"):
        headers = service.get(path).headers
        assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "server" not in headers


def test_what_is_no_request_gets_no_trace_of_the_inside(service: httpx.Client) -> None:
    post = b"POST /api/search HTTP/1.1\r\n" + CLOSING
    for sent in (
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01 not http\r\n\r\n",
        *(b"GET /" + path + b" HTTP/1.1\r\n" + CLOSING + b"\r\n" for path in (b"%ff%fe", b"api/documents/%00")),
        post + b"Content-Length: -1\r\n\r\n",
        post + b"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n\xff",
    ):
        answer = sent_raw(service, sent)
        assert 400 <= int(answer.split()[1]) < 500
        assert b"Traceback" not in answer
        assert b".py" not in answer


def answered(client: httpx.Client, *headers: str) -> str:
    """The answer to a request of these headers, sent as they are."""
    lines = ["GET /api/collections HTTP/1.1", *headers, "Connection: close", "", ""]
    return sent_raw(client, "\r\n".join(lines).encode()).decode()


@pytest.mark.parts
def test_blanks_around_a_header_mean_nothing_and_a_header_that_stands_twice_is_refused(options: ServiceOptions) -> None:
    with serving(replace(options, tokens=(ME,))) as client:
        host, token = f"Host: 127.0.0.1:{client.base_url.port}", f"Authorization: Bearer {SECRET}"
        for blanks in ("", " ", "\t ", "   "):
            assert answered(client, host + blanks, token + blanks).startswith("HTTP/1.1 200")
        assert answered(client, host, "Authorization: Bearer ").startswith("HTTP/1.1 401")
        for twice in ([host, host, token], [host, token, token], [host, token, "authorization: Bearer other"]):
            answer = answered(client, *twice)
            assert answer.startswith("HTTP/1.1 400")
            assert "stands twice" in answer or "Invalid HTTP request" in answer


@pytest.mark.parts
@pytest.mark.parametrize("path", ["/api/search", "/demo/_search"])
def test_json_with_a_name_twice_is_refused_without_words_of_pythons(service: httpx.Client, path: str) -> None:
    for body, said in (
        ('{"query": "bread", "lang": "en", "lang": "de"}', "a name stands in it twice"),
        ('{"query": {"match": {"a": 1, "a": 2}}}', "a name stands in it twice"),
        ("{broken", "the body is no JSON"),
        ("1" * 5_000, "be read"),
    ):
        answer = service.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in {400, 403, 422}
        assert said in answer.text
        assert not any(word in answer.text for word in ("Expecting", "sys."))


LAST = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
_LARGE = 30_000_000
"""Bytes of an answer that the kernel does not take all at once."""


def sent_raw(service: httpx.Client, sent: bytes) -> bytes:
    with connected(service) as opened:
        opened.sendall(sent)
        return rest(opened)


def rest(opened: socket.socket) -> bytes:
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        parts.extend(iter(lambda: opened.recv(65_536), b""))
    return b"".join(parts)


def test_a_request_that_does_not_come_is_not_waited_for(service: httpx.Client, monkeypatch: Patch) -> None:
    """Nothing, half a head, the rest of a refused body, half a second request."""
    monkeypatch.setattr(bounded_connection, "_HEAD_SECONDS", 0.2)
    for sent, answer, more in (
        (b"", b"", b""),
        (HEALTH[:30], b"", b""),
        (HALF.replace(b"Length: 9\r", b"Length: 9000000\r"), b"HTTP/1.1 413", b"x"),
        (HEALTH, b"ok", HEALTH[:12]),
    ):
        with connected(service) as opened:
            opened.sendall(sent)
            if answer:
                until(lambda: answer in opened.recv(65_536, socket.MSG_PEEK))  # noqa: B023 - called at once
                opened.sendall(more)
            assert rest(opened).count(b"HTTP/1.1") == bool(answer)


@pytest.mark.parametrize("begun", ENDLESS.values(), ids=ENDLESS)
def test_endless_requests_are_cut_off(service: httpx.Client, begun: bytes) -> None:
    assert endless(service, begun) == ""


def test_long_headers_are_refused_in_a_sentence(service: httpx.Client) -> None:
    answer = sent_raw(service, b"GET / HTTP/1.1\r\nX-Long: " + b"a" * bounded_connection._HEAD_BYTES)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"headers are too long" in answer


def test_pipelined_requests_take_no_memory_and_some_are_answered(service: httpx.Client) -> None:
    assert fallen(pipelined(service)) == []
    assert sent_raw(service, HEALTH * 8 + LAST).count(b"HTTP/1.1 200 ") == 9


@pytest.fixture
def few(monkeypatch: Patch) -> Iterator[ExitStack]:
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


def test_an_address_without_room_is_told(service: httpx.Client, few: ExitStack, monkeypatch: Patch) -> None:
    monkeypatch.setattr(request_checks, "_BODY_WITHIN", 30.0)
    for _ in range(4):
        few.enter_context(connected(service, "127.0.0.2")).sendall(HALF)

    def answer(path: bytes, source: str) -> bytes:
        with connected(service, source) as opened:
            opened.sendall(LAST.replace(b"/api/health", path))
            return rest(opened)

    until(lambda: answer(b"/api/collections", "127.0.0.2").startswith(b"HTTP/1.1 503 "))
    with connected(service, "127.0.0.2") as opened:  # a refused connection is closed
        opened.sendall(HEALTH.replace(b"/api/health", b"/demo/_count"))
        assert b"connection: close" in rest(opened)
    refused = answer(b"/demo/_count", "127.0.0.2").lower()
    assert all(part in refused for part in (b"too many requests", b"retry-after: 1", b"x-elastic-product"))
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
    bounded = bounded_connection.BoundedConnection
    server = uvicorn.Server(uvicorn.Config(answer, http=bounded, lifespan="off", ws="none", log_config=None))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
        yield client, server.server_state
    server.should_exit = True
    thread.join(60)
    listening.close()


@pytest.mark.parametrize("reads", [False, True], ids=["not read", "read slowly"])
def test_an_answer_that_is_not_read_in_time_is_given_up(reads: bool, monkeypatch: Patch) -> None:
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


def test_a_connection_beyond_the_bound_is_closed_if_all_are_busy(few: ExitStack, monkeypatch: Patch) -> None:
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
