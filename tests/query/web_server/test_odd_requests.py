"""Requests that readers would understand in different ways."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from indexer.collection.settings import Settings
from query.service.access import Token
from query.service.service_options import ServiceOptions
from trials.servers.service import serving
from trials.service_attacks import SECRET

pytestmark = pytest.mark.parts


def answered(client: httpx.Client, *headers: str) -> str:
    """The answer to a request of these headers, sent as they are."""
    place = urlsplit(str(client.base_url))
    lines = ["GET /api/collections HTTP/1.1", *headers, "Connection: close", "", ""]
    with socket.create_connection((place.hostname, place.port or 80)) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def test_blanks_around_a_header_mean_nothing_and_a_header_that_stands_twice_is_refused(calibrated: Settings) -> None:
    with serving(ServiceOptions(calibrated, device="cpu", tokens=(Token.of("me", SECRET),))) as client:
        host, token = f"Host: 127.0.0.1:{client.base_url.port}", f"Authorization: Bearer {SECRET}"
        for blanks in ("", " ", "\t ", "   "):
            assert answered(client, host + blanks, token + blanks).startswith("HTTP/1.1 200")
        assert answered(client, host, "Authorization: Bearer ").startswith("HTTP/1.1 401")
        for twice in ([host, host, token], [host, token, token], [host, token, "authorization: Bearer other"]):
            answer = answered(client, *twice)
            assert answer.startswith("HTTP/1.1 400")
            assert "stands twice" in answer or "Invalid HTTP request" in answer


@pytest.mark.parametrize("path", ["/api/search", "/demo/_search"])
def test_json_with_a_name_twice_or_that_is_none_is_refused_without_words_of_pythons(
    service: httpx.Client, path: str
) -> None:
    asked = {"headers": {"content-type": "application/json"}}
    for body, said in (
        ('{"query": "bread", "lang": "en", "lang": "de"}', "a name stands in it twice"),
        ('{"query": {"match": {"a": 1, "a": 2}}}', "a name stands in it twice"),
        ("{broken", "the body is no JSON"),
    ):
        answer = service.post(path, content=body, **asked)  # type: ignore[arg-type]
        assert answer.status_code in {400, 403, 422}
        assert said in answer.text
        assert "Expecting" not in answer.text
