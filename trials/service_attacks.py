"""Attacks on a service: what it must refuse, and what must keep no other caller out."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from elasticsearch import Elasticsearch

from trials.command import fell
from trials.long_running import BOUNDS, MEMORY, sample

SECRET = "a-token-of-thirty-two-characters"  # noqa: S105
HEALTH = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\n"
HALF = _POST + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\nhalf"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "one header": b"GET /api/health HTTP/1.1\r\nX-Long: ",
    "a name": b"GET /api/health HTTP/1.1\r\nX: y\r\nX-",
    "a path": b"GET /",
    "empty lines": b"\r\n",
    "a trailer": _CHUNKED + b"0\r\nX-Trailer: ",
    "a chunk's extension": _CHUNKED + b"1;extension=",
    "a second request": HALF.replace(b"half", b"123456789") + b"GET / HTTP/1.1\r\nX-Long: ",
}
LONG_NAMES = ("Authorization", "X-Opaque-Id", "Accept", "Content-Type")
LENGTHS = (7_900, 14_000, 20_000, 400_000)
AUTHORIZATIONS = (
    *(b"", b"\xff", b"\x80 x", "Bearer \u00fc".encode("latin-1")),
    *(f"{scheme} \u00fc".encode() for scheme in ("Bearer", "Basic")),
)
"""Values of ``Authorization`` that no reader can read."""
FOREIGN: tuple[dict[str, str], ...] = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": ""},
    {"Origin": "http://localhost:3000", "Host": "localhost:8300"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
)
"""Headers of a request that a page of another site makes in its visitor's browser."""
CLAUSE: dict[str, Any] = {"cross_lingual": {"query": "bread"}}
VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("?size=\u00b2", {}, "size must be a number"),
    ("?from=\u0662", {}, "from must be a number"),
    (f"?size={'9' * 5000}", {}, "size must be a number"),
    ("", {"_source": 5}, "_source is true, false"),
    ("", {"_source": [None]}, "_source is true, false"),
    ("", {"_source": {"includes": 5}}, "_source is true, false"),
    ("", {"highlight": {"fields": {"text": {}}, "pre_tags": "\ud800"}}, "half of a surrogate pair"),
    ("", {"\ud800": 1}, "half of a surrogate pair"),
    ("", {"size": float("inf")}, "Infinity stands in it"),
    ("", {"min_score": "1"}, "min_score must be a number"),
    ("", {"min_score": True}, "min_score must be a number"),
    ("", {"_source": ["a"] * 101}, "at most 100 fields are named"),
    ("", {"_source": {"excludes": "*a" * 101}}, "each by 200 characters at most"),
    ("", {"highlight": {"fields": {f"a{number}": {} for number in range(101)}}}, "at most 100 fields are named"),
]
"""Parameters, a part of the body, and a part of the sentence that refuses them."""
_FORGED = "forged: all is well"
_INJECTED = f"a\n{_FORGED}\r\n{_FORGED}\x1b[2J\u2028{_FORGED}\u0085{_FORGED}"
"""Text that would be lines of its own in a log."""
_ENDLESS_BYTES = 8_000_000  # more than the buffers of both ends of a connection hold
_TRICKLES = (HEALTH[:30], b"GET /api/health HTTP/1.1\r\nX-Long: ", HALF.replace(b"Length: 9\r", b"Length: 900\r"))
"""Beginnings of requests whose rest comes byte by byte."""
_PIPELINES, _PIPELINED_BYTES = 4, 4_000_000
_GIVEN_UP_WITHIN = 60.0  # seconds until an unfinished request must be given up; the service's own bound is 20


def _is(answer: httpx.Response, status: int, sentence: str = "") -> str:
    what = (answer.request.method, str(answer.url)[:100], answer.status_code, answer.text[:100])
    return fell(what, held=answer.status_code == status and sentence in answer.text)


def long_header(service: httpx.Client, path: str, name: str, length: int) -> Iterator[str]:
    for _ in range(12):
        answer = service.get(path, headers={name: "Basic " + "a" * length})
        held = answer.status_code == 431 if length > 8_000 else answer.status_code < 500
        yield fell((path, name, length, answer.status_code), held=held)
        answer = service.get(f"{path}?preference=" + "a" * min(length, 50_000))
        yield fell((path, length, answer.status_code), held=answer.status_code in {414, 431})  # 431: it came in pieces


def served(caller: httpx.Client, path: str, index: str, collection: str) -> Iterator[str]:
    for _ in range(12):
        yield _is(caller.get(path), 200)
        yield _is(caller.post("/api/search", json={"query": "print", "lang": "en", "collection": collection}), 200)
        yield _is(caller.post(f"/{index}/_search", json={"query": CLAUSE}), 200)


def connected(service: httpx.Client, source: str = "127.0.0.1") -> socket.socket:
    parts = urlsplit(str(service.base_url))
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30, source_address=(source, 0))


def closed(opened: socket.socket) -> bool:
    poll = select.poll()
    poll.register(opened, select.POLLRDHUP)
    return bool(poll.poll(0))


def endless(service: httpx.Client, begun: bytes) -> str:
    """Send what never ends, until the service closes the connection."""
    piece, sent = b"\r\n" * 5000 if begun == b"\r\n" else b"a" * 10_000, 0
    with connected(service) as opened, suppress(ConnectionError, TimeoutError):
        opened.sendall(begun)
        while sent < _ENDLESS_BYTES and not closed(opened):
            opened.sendall(piece)
            sent += len(piece)
    taken = f"{sent:,} bytes after {begun[:60]!r} were taken" if sent >= _ENDLESS_BYTES else ""
    return taken or _is(service.get("/api/health"), 200)


def idle(service: httpx.Client, count: int) -> Iterator[str]:
    """Open connections without a request from three addresses; others are answered, and so are theirs."""
    with ExitStack() as stack:
        for number in range(count):
            stack.enter_context(connected(service, f"127.0.0.{2 + number % 3}"))
        for source in ("127.0.0.1", "127.0.0.2"):
            for path in (b"/api/health", b"/api/ready", b"/api/collections"):
                with connected(service, source) as opened:
                    opened.sendall(HEALTH.replace(b"/api/health", path))
                    answer = opened.recv(65_536)
                yield fell((source, path, answer[:60]), held=answer.startswith(b"HTTP/1.1 200 "))


def pipelined(service: httpx.Client) -> Iterator[str]:
    """Send megabytes without reading an answer to this process, which serves: it closes, and keeps its memory."""
    before = sample(os.getpid())[MEMORY]
    with ExitStack() as stack:
        for _ in range(_PIPELINES):
            opened = stack.enter_context(connected(service))
            opened.settimeout(5)
            ended = False
            with suppress(TimeoutError):
                try:
                    for _ in range(_PIPELINED_BYTES // 1_000_000):
                        opened.sendall(b"GET / HTTP/1.1\r\nHost:a\r\n\r\n" * (1_000_000 // 26))
                except ConnectionError:
                    ended = True
            yield fell("pipelined requests were taken, or left waiting", held=ended)
            yield _is(service.get("/api/health"), 200)
        memory = sample(os.getpid())[MEMORY]
        yield fell(f"memory: {before:,.0f} MB, {memory:,.0f}", held=memory <= before + BOUNDS[MEMORY])


def unfinished(service: httpx.Client) -> Iterator[str]:
    """Send nothing, half a head and half a body, and a byte a second of heads and a body; each is given up.

    A bound that starts again at each byte would never be reached.
    """
    with ExitStack() as stack:
        begun = [(b"", False), (HEALTH[:30], False), (HALF, False), *((sent, True) for sent in _TRICKLES)]
        waiting = {case: stack.enter_context(connected(service)) for case in begun}
        for (sent, _), opened in waiting.items():
            opened.sendall(sent)
        deadline = time.monotonic() + _GIVEN_UP_WITHIN
        while waiting and time.monotonic() < deadline:
            time.sleep(1.0)
            for case, opened in list(waiting.items()):
                answer = b""
                with suppress(ConnectionError):
                    if closed(opened):
                        del waiting[case]
                        answer = opened.recv(65_536)
                    elif case[1]:
                        opened.sendall(b"a")
                if case not in waiting:
                    yield fell(case, answer[:60], held=answer == b"" or b" 408 " in answer)
        yield fell("still read", list(waiting), held=not waiting)


def unreadable_authorizations(service: httpx.Client) -> Iterator[str]:
    for authorization in AUTHORIZATIONS:
        headers = [(b"Authorization", authorization)]
        for path in ("/api/collections", "/", "/demo/_search", "/demo/_count"):
            yield _is(service.get(path, headers=headers), 401, "error")
        yield _is(service.get("/api/health", headers=headers), 200)


def odd_value(service: httpx.Client, parameters: str, more: Mapping[str, Any], sentence: str) -> str:
    body = json.dumps({"query": CLAUSE, **more})
    headers = {"Content-Type": "application/json"}
    return _is(service.post(f"/demo/_search{parameters}", content=body, headers=headers), 400, sentence)


def foreign_page(service: httpx.Client, headers: Mapping[str, str]) -> Iterator[str]:
    for method, path in (("POST", "/demo/_search"), ("POST", "/api/clicks"), ("POST", "/api/search")):
        yield _is(service.request(method, path, headers=headers), 403, "another site")


def injected(service: httpx.Client, log: Path, index: str) -> Iterator[str]:
    """Send text with line ends wherever a service may log it; no line of its log begins with the text."""
    clauses: tuple[dict[str, Any], ...] = (
        {_INJECTED: {}},
        {"match": {_INJECTED: {"fuzziness": _INJECTED}}},
        {"range": {"a": {_INJECTED: 1}}},
    )
    for clause in clauses:
        query = {"bool": {"must": CLAUSE, "filter": clause}}
        answer = service.post(f"/{index}/_search", json={"query": query})
        yield fell(answer.status_code, answer.text, held=400 <= answer.status_code < 500)
    place = quote(_INJECTED)
    for path in (f"/{place}/_search", f"/api/documents/{place}?collection={place}", f"/{index}/_search?q={place}"):
        answer = service.get(path, headers={"X-Opaque-Id": place})
        yield fell(path, answer.status_code, held=answer.status_code < 500)
    logged = log.read_text(encoding="utf-8")
    yield fell("nothing was logged", held=_FORGED in logged)
    yield from (fell(line, held=not line.startswith(_FORGED) and "\x1b" not in line) for line in logged.splitlines())


def _with(base: str, token: str) -> int:
    """The status of a call with a token."""
    return httpx.get(f"{base}/api/collections", headers={"Authorization": f"Bearer {token}"}).status_code


def wrong_tokens(service: httpx.Client, secret: str) -> Iterator[str]:
    """Guess tokens: after some the address is refused, and the right token passes."""
    base, statuses = str(service.base_url).rstrip("/"), list[int]()
    while 429 not in statuses and len(statuses) < 300:  # a slow service counts fewer guesses a second
        statuses.append(_with(base, f"wrong {len(statuses)}"))
    yield fell(statuses, held=set(statuses) == {401, 429} and statuses[:5] == [401] * 5)
    yield fell("the right token", held=_with(base, secret) == 200)
    yield _is(service.get("/api/collections"), 401)  # without a token nothing is guessed


def changed_tokens(url: str, process: subprocess.Popen[bytes], file: Path) -> Iterator[str]:
    """Take away the token ``SECRET`` of a file, and another by a change that only SIGHUP tells of."""
    yield fell("the token", held=_with(url, SECRET) == 200)
    file.write_text(f"you {SECRET}2\n")
    yield fell("a token that was taken away", held=_with(url, SECRET) in {401, 429})  # 429: after wrong tokens
    yield fell("a token that was added", held=_with(url, f"{SECRET}2") == 200)
    before = file.stat()
    file.write_text(f"you {SECRET}3\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    while _with(url, f"{SECRET}3") != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    yield fell("a token that was added before SIGHUP", held=_with(url, f"{SECRET}3") == 200)
    yield fell("SIGHUP ended the service", held=process.poll() is None)


_NAMES = """
{secret} {index},{secret} {secret},{index} * _all _All front-* {secret}* {start}? *,-{index} {index},* -{index},{secret}
<{secret}> <{secret}{{now/d}}> a:{secret} *:{secret} {secret}::data {secret}::* .{secret} {secret}, ,{secret}
{secret}%2C{index} {coded} {first}{rest} {index}%2c{secret} %252a ..%2f{secret} {index}%2F..%2F{secret}
{index}/../{secret} ./{secret} //{secret} {secret};{index} {secret}%00 {secret}%20 %20{secret} {secret}%0a {secret}%23
{upper} {secret}%3F %2A %3C{secret}%3E %5Fall %E2%80%AE{secret} %EF%BC%8A .* .dragoman* .security .kibana .tasks _ %2E
"""
"""Names, patterns, lists and expressions that an index which is not served can be reached by."""
_READS: tuple[tuple[str, str, str], ...] = (
    ("POST", "/{name}/_search", "{}"),
    ("GET", "/{name}/_search?q=text:secret", ""),
    ("GET", "/{name}/_count", ""),
    ("POST", "/{name}/_msearch", "{}\n{}\n"),
    *(("GET", path, "") for path in ("/{name}/_doc/s", "/{name}", "/_cat/indices/{name}")),
    *(("POST", f"/{{name}}/{call}", "{}") for call in ("_pit?keep_alive=1m", "_mget", "_async_search")),
)
"""Method, path and body of reads of an index that the path names."""


def _bodies_naming(index: str, name: str) -> Iterator[tuple[str, str, str]]:
    doc = {"_index": name, "_id": "s"}
    lookup = {"terms": {"text": {"index": name, "id": "s", "path": "text"}}}
    like = {"more_like_this": {"fields": ["text"], "like": [doc], "min_term_freq": 1, "min_doc_freq": 1}}
    shape = {"geo_shape": {"text": {"indexed_shape": {"index": name, "id": "s", "path": "text"}}}}
    percolate = {"percolate": {"field": "text", "index": name, "id": "s"}}
    for query in (lookup, like, shape, percolate):
        wrapped = {"bool": {"filter": [{"nested": {"path": "a", "query": {"bool": {"must_not": [query]}}}}]}}
        for body in (
            {"query": query},
            {"query": wrapped},
            {"aggs": {"a": {"filter": query}}},
            {"post_filter": query},
            {"rescore": {"query": {"rescore_query": query}}},
            {"knn": {"field": "v", "query_vector": [1], "filter": query}},
            {"query": {"bool": {"must": CLAUSE, "filter": query}}},
        ):
            yield "POST", f"/{index}/_search", json.dumps(body)
        yield "POST", f"/{index}/_count", json.dumps({"query": query})
        yield "POST", f"/{index}/_msearch", f"{{}}\n{json.dumps({'query': query})}\n"
    yield from (("POST", f"/{index}/{call}?index={quote(name)}", "{}") for call in ("_search", "_count"))
    yield "POST", f"/{index}/_search", json.dumps({"indices_boost": [{name: 2.0}]})
    for names in (name, [name], [index, name], f"{index},{name}"):
        header = {"index": names}
        yield "POST", "/_msearch", f"{json.dumps(header)}\n{{}}\n"
        yield "POST", f"/{index}/_msearch", f"{{}}\n{{}}\n{json.dumps(header)}\n{{}}\n"


def forbidden_reads(
    service: httpx.Client, cluster: Elasticsearch, index: str, secret: str, canary: str
) -> Iterator[str]:
    """Read an index that is not served by every call and name; its text ``canary`` and its existence are in no answer.

    The cluster has a closed copy of the index and an alias to it, too, and a search of it is held open.
    """
    closed, alias = f"{secret}-closed", f"{secret}-alias"
    cluster.index(index=closed, id="s", document={"text": canary}, refresh=True)
    cluster.indices.close(index=closed)
    cluster.indices.put_alias(index=secret, name=alias)
    pit = cluster.open_point_in_time(index=secret, keep_alive="5m")["id"]
    coded = [f"%{byte:02X}" for byte in secret.encode()]
    names = _NAMES.format(
        secret=secret, index=index, start=secret[:-1], coded="".join(coded).lower(), first=coded[0],
        rest=secret[1:], upper=secret.upper(),
    ).split()  # fmt: skip
    lists = f"{index},{secret}", f"{secret}*", "*", "_all"
    reads = [
        (method, path.replace("{name}", name), body)
        for name in (*names, closed, alias, f"{alias},{index}")
        for method, path, body in _READS
    ]
    for name in (secret, *lists, closed, alias, f"a:{secret}", f"<{secret}>", ""):
        reads += _bodies_naming(index, name)
    reads += [
        *(("POST", path, json.dumps({"pit": {"id": pit}})) for path in ("/_search", f"/{index}/_search")),
        ("POST", "/_search/scroll", '{"scroll_id": "s"}'),
        ("POST", f"/{index}/_search?scroll=1m", "{}"),
    ]
    try:
        yield from (_read(service, *read, canary) for read in reads)
    finally:
        cluster.close_point_in_time(id=pit)
        cluster.indices.delete(index=closed)
        cluster.indices.delete_alias(index=secret, name=alias)


def _read(service: httpx.Client, method: str, path: str, body: str, canary: str) -> str:
    """Ask by a path that no client mends: the answer is 4xx, and what is secret is not in it."""
    url = service.base_url
    with closing(http.client.HTTPConnection(url.host, url.port, timeout=60)) as connection:
        connection.request(method, path, body.encode(), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    held = 400 <= answer.status < 500 and canary not in text
    return fell((method, path, body[:100], answer.status, text[:100]), held=held)
