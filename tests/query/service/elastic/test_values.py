"""Values of a search with the clause that no number, field or text can be: each is refused in a sentence."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest


def clause(text: str) -> dict[str, Any]:
    return {"cross_lingual": {"query": text}}


@pytest.mark.parametrize(
    ("parameters", "more", "sentence"),
    [
        ("?size=\u00b2", {}, "size must be a number"),
        ("?from=\u0662", {}, "from must be a number"),
        (f"?size={'9' * 5000}", {}, "size must be a number"),
        ("", {"_source": 5}, "_source is true, false"),
        ("", {"_source": [None]}, "_source is true, false"),
        ("", {"_source": {"includes": 5}}, "_source is true, false"),
        ("", {"highlight": {"fields": {"text": {}}, "pre_tags": "\ud800"}}, "half of a surrogate pair"),
        ("", {"\ud800": 1}, "half of a surrogate pair"),
        ("", {"size": float("inf")}, "Infinity stands in it"),
    ],
)
def test_values_that_are_none_are_refused(
    service: httpx.Client, parameters: str, more: dict[str, Any], sentence: str
) -> None:
    body = json.dumps({"query": clause("bread"), **more})
    headers = {"Content-Type": "application/json"}
    answer = service.post(f"/demo/_search{parameters}", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert sentence in answer.text


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
    body = json.dumps({"query": {"bool": {"must": clause("bread"), "filter": condition}}})
    headers = {"Content-Type": "application/json"}
    answer = service.post("/demo/_search", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
