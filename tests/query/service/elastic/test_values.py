"""Values of a search with the clause that no number, field or text can be: each is refused in a sentence."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from trials.service_attacks import CLAUSE, VALUES, odd_value


@pytest.mark.parametrize(("parameters", "more", "sentence"), VALUES)
def test_values_of_wrong_types_are_refused(
    service: httpx.Client, parameters: str, more: dict[str, Any], sentence: str
) -> None:
    assert odd_value(service, parameters, more, sentence) == ""


@pytest.mark.parametrize(
    "condition",
    [
        {"term": {"label": None}},
        {"term": {"label": {"value": {}}}},
        {"terms": {"label": [["a"]]}},
        {"terms": {"label": {"a": 1}}},
        {"term": {"label": "\ud800"}},
        {"term": {"\ud800": "a"}},
    ],
)
def test_filters_without_a_value_are_refused(service: httpx.Client, condition: dict[str, Any]) -> None:
    body = json.dumps({"query": {"bool": {"must": CLAUSE, "filter": condition}}})
    headers = {"Content-Type": "application/json"}
    answer = service.post("/demo/_search", content=body, headers=headers)
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("parameters", "more", "shown"),
    [
        ("", {"_source": False}, None),
        ("?_source=false", {}, None),
        ("", {"_source": True}, {"title", "text", "lang", "fields"}),
        ("", {"_source": "t*"}, {"title", "text"}),
        ("", {"_source": {"excludes": ["text", "fields"]}}, {"title", "lang"}),
    ],
)
def test_a_source_is_shown_as_far_as_it_is_asked_for(
    service: httpx.Client, parameters: str, more: dict[str, Any], shown: set[str] | None
) -> None:
    answer = service.post(f"/demo/_search{parameters}", json={"query": CLAUSE, **more})
    assert answer.status_code == 200, answer.text
    sources = [hit.get("_source") for hit in answer.json()["hits"]["hits"]]
    assert sources
    assert all((None if source is None else set(source)) == shown for source in sources)
