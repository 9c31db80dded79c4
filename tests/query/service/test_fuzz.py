"""Requests made at random out of the service's own OpenAPI; collections are made, changed and deleted meanwhile."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.service.access import Token
from query.service.service_options import ServiceOptions
from tests.conftest import fallen
from trials import long_running
from trials.servers.service import serving
from trials.service_attacks import SECRET


@pytest.mark.parts
@pytest.mark.parametrize("tokens", [(), (Token.of("me", SECRET),)], ids=["no tokens", "tokens"])
def test_every_operation_keeps_what_it_promises(
    calibrated: Settings, reranker: ModelFolder, tmp_path: Path, tokens: tuple[Token, ...]
) -> None:
    """All checks and all phases of schemathesis, with valid and invalid requests."""
    headers = {"Authorization": f"Bearer {SECRET}"} if tokens else {}
    options = ServiceOptions(calibrated, device="cpu", tokens=tokens, rerank=str(reranker.path))
    with serving(options, headers=headers) as client:
        schema = tmp_path / "openapi.json"
        schema.write_bytes(client.get("/openapi.json").content)
        sent = [part for name, value in headers.items() for part in ("--header", f"{name}: {value}")]
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", schema, "--url", str(client.base_url), *sent,
             "--checks", "all", "--max-examples", "100", "--generation-deterministic", "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Tested: 7" in run.stdout


_PARTS = [*b"demo _search _count _msearch %2e%2e %2F _doc %5f * api %ff".split(), b""]


_CLAUSE_BODY = b'{"query": {"cross_lingual": {"query": "a"}}}'


_BODIES = [_CLAUSE_BODY, b"{}\n" + _CLAUSE_BODY, b"{}", b"[]", b"null", b"[{}]", b"1",
           b'{"a":' * 900 + b"1" + b"}" * 900]  # fmt: skip


_TYPES = ["application/json", "text/plain", "application/vnd.elasticsearch+json; compatible-with=9"]


@given(
    path=st.lists(st.sampled_from(_PARTS), max_size=5),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"]),
    body=st.binary(max_size=40) | st.sampled_from(_BODIES),
    content_type=st.sampled_from(_TYPES),
)
@settings(max_examples=300, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_path_fails(service: httpx.Client, path: list[bytes], method: str, body: bytes, content_type: str) -> None:
    request = service.build_request(method, service.base_url, content=body, headers={"Content-Type": content_type})
    request.url = httpx.URL(str(service.base_url)).copy_with(raw_path=b"/" + b"/".join(path))
    answer = service.send(request)
    assert answer.status_code < 500
    assert "Traceback" not in answer.text


@pytest.mark.long
def test_a_service_is_right_while_collections_are_made_changed_and_deleted(tmp_path: Path, elastic_url: str) -> None:
    outcomes = list(long_running.soak(tmp_path, elastic_url, 60))
    assert fallen(outcomes) == []
    assert len(outcomes) > 100


@pytest.mark.long
def test_collections_that_were_closed_hold_nothing(tmp_path: Path) -> None:
    outcomes = long_running.alone(long_running.many_collections, tmp_path, 30)
    assert len(outcomes) > 30
    assert not any(outcomes), [outcome for outcome in outcomes if outcome]
