"""Who may ask, how much, how often; what every answer carries."""

import base64
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from encoders.errors import BadInput
from indexer.collection.settings import Settings
from query.service.access import RateLimiter, Token, TokenFile, read_tokens
from query.service.service_options import ServiceOptions
from query.web_server import request_checks
from tests.conftest import fallen
from trials.servers.service import serving
from trials.service_attacks import FOREIGN, SECRET, connected, foreign_page, unreadable_authorizations, wrong_tokens

ASKED = {"query": "coffee", "lang": "en"}


@pytest.fixture
def options(calibrated: Settings) -> ServiceOptions:
    return ServiceOptions(calibrated, device="cpu")


def test_a_token_is_needed_where_there_are_some(options: ServiceOptions) -> None:
    with serving(replace(options, tokens=(Token.of("me", SECRET),))) as client:
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


@pytest.mark.parametrize("tokens", [(), (Token.of("me", SECRET),)], ids=["no tokens", "tokens"])
def test_an_authorization_that_cannot_be_read_is_refused(options: ServiceOptions, tokens: tuple[Token, ...]) -> None:
    with serving(replace(options, tokens=tokens, elastic="http://127.0.0.1:9")) as client:
        assert fallen(unreadable_authorizations(client)) == []


def test_no_line_feed_turns_a_path_of_the_services_own_into_elasticsearchs(options: ServiceOptions) -> None:
    """Routes end with ``$``, which a last line feed may follow; the cluster vouches for its own paths alone."""
    with serving(replace(options, tokens=(Token.of("me", SECRET),), elastic="http://127.0.0.1:9")) as client:
        for path in ("/mcp%0A", "/mcp%0A/", "/mcp/%0A", "/metrics%0A", "/openapi.json%0A", "/api%0A", "/%0A"):
            for method in ("GET", "POST"):
                refused = client.request(method, path, auth=("elastic", "caller"))
                assert (refused.status_code, "can't be read" in refused.text) == (400, True)


def test_wrong_tokens_of_an_address_are_bounded_and_right_ones_pass(options: ServiceOptions) -> None:
    with serving(replace(options, tokens=(Token.of("me", SECRET),))) as client:
        assert fallen(wrong_tokens(client, SECRET)) == []


def test_headers_and_paths_are_bounded_before_anything_is_asked(service: httpx.Client) -> None:
    for name in ("Authorization", "X-Opaque-Id", "Accept", "Anything"):
        for path in ("/api/collections", "/demo/_count", "/api/health"):
            refused = service.get(path, headers={name: "a" * 9000})
            assert refused.status_code == 431, (name, path)
            assert "8,000" in refused.text
    assert service.get("/api/health", headers={f"X-{at}": "a" * 1000 for at in range(16)}).status_code == 431
    assert service.get("/api/health", headers={f"X-{at}": "a" for at in range(3000)}).status_code == 431
    assert service.get("/api/health", headers={"X": "a" * 7000}).status_code == 200
    assert service.get("/demo/_search?preference=" + "a" * 9000).status_code == 414


def test_every_failure_is_answered(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
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
    """A tokens' file with one."""
    (tmp_path / "tokens").write_text(f"me {SECRET}\n", encoding="utf-8")
    (tmp_path / "tokens").chmod(0o600)
    return tmp_path / "tokens"


ME, SINGLE = Token.of("me", SECRET), Token.of("DRAGOMAN_TOKEN", f"{SECRET}1")


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


def test_tokens_are_read_again_when_their_file_changes(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = TokenFile(file, [SINGLE])
    assert list(tokens) == [ME, SINGLE]
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


def test_tokens_are_read_again_when_asked_though_the_file_seems_the_same(file: Path) -> None:
    file.write_text(f"me {SECRET}1\n", encoding="utf-8")
    tokens, before = TokenFile(file), file.stat()
    file.write_text(f"me {SECRET}2\n", encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(tokens) == [Token.of("me", f"{SECRET}1")]
    tokens.read_again()
    assert list(tokens) == [Token.of("me", f"{SECRET}2")]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
@pytest.mark.parametrize(("mode", "said"), [(0o600, False), (0o400, False), (0o644, True), (0o640, True)])
def test_a_tokens_file_that_others_can_read_is_said(
    mode: int, said: bool, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.chmod(mode)
    assert TokenFile(file)
    assert ("other users can read or write the tokens' file" in caplog.text) is said


def test_a_rate_is_each_ones_own() -> None:
    limiter = RateLimiter(60)
    allowed = [limiter.wait("me") for _ in range(20)]
    assert allowed[:10] == [0.0] * 10
    assert 0 < allowed[-1] <= 1
    assert limiter.wait("you") == 0.0
    assert not any(RateLimiter(0).wait("me") for _ in range(1000))


def test_too_many_requests_are_told_when_to_come_again(options: ServiceOptions) -> None:
    with serving(replace(options, rate=60)) as client:
        answers = [client.get("/api/collections") for _ in range(60)]
        refused = [int(one.headers["Retry-After"]) for one in answers if one.status_code == 429]
        assert min(refused) >= 1
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


def test_a_search_that_takes_too_long_is_given_up(options: ServiceOptions) -> None:
    with serving(replace(options, seconds=0.0001)) as client:
        late = client.post("/api/search", json=ASKED)
        assert (late.status_code, "took too long" in late.json()["error"]) == (503, True)


def test_large_bodies_are_refused(options: ServiceOptions) -> None:
    with serving(replace(options, max_body=2000)) as client:
        assert client.post("/api/search", content=b"x" * 3000).status_code == 413

        def parts() -> object:
            yield from [b"x" * 500] * 6

        assert client.post("/api/search", content=parts()).status_code == 413  # type: ignore[arg-type]
        assert client.post("/api/search", json=ASKED).status_code == 200


CLOSING = b"Host: localhost\r\nConnection: close\r\n"


def sent_raw(service: httpx.Client, sent: bytes) -> bytes:
    with connected(service) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_body_that_does_not_come_is_not_waited_for(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_checks, "_BODY_WITHIN", 0.2)
    answer = sent_raw(service, b"POST /api/search HTTP/1.1\r\n" + CLOSING + b"Content-Length: 9\r\n\r\nhalf")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not come in time" in answer


def test_a_large_body_has_more_time(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
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
    headers = {**origin, "Content-Type": "text/plain"}
    assert service.post("/api/search", content=b'{"query": "coffee"}', headers=headers).status_code == 403


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
def test_a_page_of_somebody_elses_changes_nothing(
    service: httpx.Client, headers: dict[str, str], foreign: bool
) -> None:
    """Its visitor's browser sends what the visitor may: also a password that the browser remembers."""
    assert {bool(fall) for fall in foreign_page(service, headers)} == {not foreign}
    assert service.get("/api/collections", headers=headers).status_code == 200
    assert service.get("/", headers={**headers, "Accept": "text/html"}).status_code == 200


def test_every_answer_carries_the_headers_that_close_it(service: httpx.Client) -> None:
    for path in ("/", "/api/collections", "/api/nowhere", "/x/y/z"):
        answer = service.get(path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01 not http\r\n\r\n",
        b"GET /%ff%fe HTTP/1.1\r\n" + CLOSING + b"\r\n",
        b"GET /api/documents/%00 HTTP/1.1\r\n" + CLOSING + b"\r\n",
        b"POST /api/search HTTP/1.1\r\n" + CLOSING + b"Content-Length: -1\r\n\r\n",
        b"POST /api/search HTTP/1.1\r\n" + CLOSING + b"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n\xff",
    ],
)
def test_what_is_no_request_gets_no_trace_of_the_inside(service: httpx.Client, sent: bytes) -> None:
    answer = sent_raw(service, sent)
    assert 400 <= int(answer.split()[1]) < 500
    assert b"Traceback" not in answer
    assert b".py" not in answer
