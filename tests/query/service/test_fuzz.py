"""Requests made at random out of the service's own OpenAPI: none fails, and each answer is as described."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

_CHECKS = (not_a_server_error, response_schema_conformance, status_code_conformance)


@pytest.fixture(scope="module")
def described(service: httpx.Client) -> Any:
    return schemathesis.openapi.from_url(f"{service.base_url}/openapi.json")


PATHS = [
    ("POST", "/api/search"),
    ("POST", "/api/clicks"),
    ("GET", "/api/collections"),
    ("GET", "/api/documents/{doc_id}"),
    ("GET", "/api/health"),
    ("GET", "/api/ready"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("method", "path"), PATHS, ids=[path for _, path in PATHS])
def test_every_operation_keeps_what_it_promises(described: Any, method: str, path: str) -> None:
    operation = described[path][method]

    @given(case=operation.as_strategy())
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    def check(case: Any) -> None:
        case.call_and_validate(checks=_CHECKS)

    check()


_PARTS = [b"demo", b"_search", b"_bulk", b"_mget", b"%2e%2e", b"%2F", b"_doc", b"%5f", b"*", b"api", b"%ff", b""]
_BODIES = [b'{"query": {"cross_lingual": {"query": "a"}}}', b"{}", b"[]", b"null", b"[{}]", b"1", b'{"docs": null}',
           b'{"docs": 1}', b'{"a":' * 900 + b"1" + b"}" * 900]  # fmt: skip
_TYPES = ["application/json", "text/plain", "application/vnd.elasticsearch+json; compatible-with=9"]


@given(
    path=st.lists(st.sampled_from(_PARTS), max_size=5),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"]),
    body=st.binary(max_size=40) | st.sampled_from(_BODIES),
    content_type=st.sampled_from(_TYPES),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_elasticsearchs_paths_never_fail(
    service: httpx.Client, path: list[bytes], method: str, body: bytes, content_type: str
) -> None:
    request = service.build_request(method, service.base_url, content=body, headers={"Content-Type": content_type})
    request.url = httpx.URL(str(service.base_url)).copy_with(raw_path=b"/" + b"/".join(path))
    answer = service.send(request)
    assert answer.status_code < 500
    assert "Traceback" not in answer.text
