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
