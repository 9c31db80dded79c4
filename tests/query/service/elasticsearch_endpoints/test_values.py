"""Values of a search with the clause that no number, field or text can be: each is refused in a sentence."""

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


def test_the_clauses_own_filter_holds_in_a_collection_of_this_machine(service: httpx.Client) -> None:
    label, clause = {"term": {"label": "digital"}}, CLAUSE["cross_lingual"]
    inside = {"query": {"cross_lingual": {**clause, "filter": [label]}}}
    beside = {"query": {"bool": {"must": CLAUSE, "filter": label}}}
    inner, outer = (service.post("/demo/_search", json=body).json()["hits"] for body in (inside, beside))
    assert inner == outer
    assert inner["hits"]


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


def test_an_explanation_has_numbers_and_names_the_mate_that_adds_most_to_a_hit(service: httpx.Client) -> None:
    body = {"query": {"cross_lingual": {"query": "flood in the old town", "lang": "en"}}, "explain": True}
    hits = service.post("/demo/_search", json=body).json()["hits"]["hits"]
    details = [detail for hit in hits for detail in hit["_explanation"]["details"]]
    assert {type(detail["value"]) for detail in details} == {float}
    assert any(detail["description"].startswith("added by mates, the best of them demo:") for detail in details)


@pytest.mark.parametrize("name", ["subjects", "prefer", "margin", "weights", "passages", "mates"])
def test_the_clause_has_no_subjects_as_an_answer_has_a_document_a_hit_nor_switches(
    service: httpx.Client, name: str
) -> None:
    answer = service.post("/demo/_search", json={"query": {"cross_lingual": {"query": "a", name: True}}})
    assert answer.status_code == 400
    assert f"cross_lingual has no '{name}'" in answer.json()["error"]["reason"]


def test_hits_below_the_least_score_are_left_out(service: httpx.Client) -> None:
    def found(**more: Any) -> dict[str, Any]:
        answer = service.post("/demo/_search", json={"query": CLAUSE, **more})
        hits: dict[str, Any] = answer.json()["hits"]
        return hits

    every = found(size=40)["hits"]
    bound = every[25]["_score"]
    reaching = [hit for hit in every if hit["_score"] >= bound]
    whole = found(size=40, min_score=bound)
    assert whole["hits"] == reaching
    assert whole["total"] == {"value": len(reaching), "relation": "eq"}
    pages = [found(size=10, min_score=bound, **{"from": start}) for start in range(0, 50, 10)]
    assert [hit for page in pages for hit in page["hits"]] == reaching
    assert [page["total"]["relation"] for page in pages] == ["gte", "gte", "eq", "eq", "eq"]
    assert found(min_score=1000) == {"total": {"value": 0, "relation": "eq"}, "max_score": None, "hits": []}


def test_passages_are_shown_under_a_hit_as_inner_hits_of_a_nested_field(service: httpx.Client) -> None:
    def found(inner: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        clause = {"cross_lingual": {"query": "flood in the old town", "lang": "en", "inner_hits": inner}}
        answer = service.post("/demo/_search", json={"query": clause, "highlight": {"fields": {"text": {}}}, **more})
        assert answer.status_code == 200, answer.text
        hits: list[dict[str, Any]] = answer.json()["hits"]["hits"]
        return hits

    several = 0
    for hit in found({"size": 50}):
        content = f"{hit['_source']['title']}\n{hit['_source']['text']}"
        under = hit["inner_hits"]["passages"]["hits"]
        scores = [passage["_score"] for passage in under["hits"]]
        assert under["total"] == {"value": len(scores), "relation": "eq"}
        assert scores == sorted(scores, reverse=True)
        assert under["max_score"] == scores[0]
        assert sorted(passage["_nested"]["offset"] for passage in under["hits"]) == list(range(len(scores)))
        for passage in under["hits"]:
            assert (passage["_index"], passage["_id"]) == ("demo", hit["_id"])
            source = passage["_source"]
            assert content[source["start"] : source["end"]] == source["text"]
        assert hit["highlight"]["text"] == [f"<em>{under['hits'][0]['_source']['text']}</em>"]
        several += len(scores) > 1
    assert several
    (hit,) = found({"name": "best", "size": 1, "_source": ["start"]}, size=1)
    (best,) = hit["inner_hits"]["best"]["hits"]["hits"]
    assert best["_source"].keys() == {"start"}
    (hit,) = found({"from": 1, "size": 1, "_source": False}, size=1)
    assert all("_source" not in passage for passage in hit["inner_hits"]["passages"]["hits"]["hits"])


def test_a_subject_is_shown_once_with_its_other_languages_under_it(service: httpx.Client) -> None:
    def found(**more: Any) -> dict[str, Any]:
        answer = service.post("/demo/_search", json={"query": CLAUSE, **more})
        assert answer.status_code == 200, answer.text
        hits: dict[str, Any] = answer.json()["hits"]
        return hits

    every = found(size=1000)
    by_concept: dict[str, list[str]] = {}
    for hit in every["hits"]:
        by_concept.setdefault(hit["_source"]["fields"]["concept"], []).append(hit["_id"])
    collapse = {"field": "concept", "inner_hits": {"name": "languages", "size": 20, "_source": ["lang"]}}
    seen: list[str] = []
    while page := found(collapse=collapse, size=7, **{"from": len(seen)})["hits"]:
        for hit in page:
            (concept,) = hit["fields"]["concept"]
            under = hit["inner_hits"]["languages"]["hits"]["hits"]
            assert [other["_id"] for other in under] == by_concept[concept]
            assert hit["_id"] == by_concept[concept][0]
            assert all(other["_source"].keys() == {"lang"} for other in under)
            seen.append(concept)
    assert seen == list(by_concept)
    assert found(collapse=collapse, size=0)["total"] == every["total"] == {"value": 235, "relation": "eq"}


def test_a_field_collapses_by_its_usual_names_and_languages_too(service: httpx.Client) -> None:
    def values(field: str) -> list[str]:
        body = {"query": CLAUSE, "collapse": {"field": field}, "size": 100}
        return [hit["fields"][field][0] for hit in service.post("/demo/_search", json=body).json()["hits"]["hits"]]

    assert values("label") == values("fields.label") == values("label.keyword")
    assert len(set(values("lang"))) == len(values("lang")) == 10


@pytest.mark.parametrize(
    ("collapse", "more", "sentence"),
    [
        ({"field": "title"}, {}, "title can't collapse, as it has texts"),
        ({"field": "nonsense"}, {}, "no document has the field 'nonsense'"),
        ({"field": "label", "collapse": {"field": "lang"}}, {}, "collapse has no 'collapse' here"),
        ({"field": "label", "inner_hits": [{}, {}]}, {}, "two inner_hits of collapse have one name"),
        ({"field": "label", "inner_hits": {"name": "passages"}}, {"inner_hits": {}}, "have one name"),
        ("label", {}, "collapse is an object with a field"),
    ],
)
def test_what_cannot_collapse_is_refused(
    service: httpx.Client, collapse: Any, more: dict[str, Any], sentence: str
) -> None:
    body = {"query": {"cross_lingual": {"query": "bread", **more}}, "collapse": collapse}
    answer = service.post("/demo/_search", json=body)
    assert answer.status_code == 400, answer.text
    assert sentence in answer.json()["error"]["reason"]


@pytest.mark.parametrize(
    ("inner", "sentence"),
    [
        (5, "inner_hits is an object"),
        ({"sort": []}, "inner_hits has no 'sort' here"),
        ({"size": 101}, "at most 100 are shown"),
        ({"size": -1}, "size must be a number"),
        ({"name": 5}, "name of inner_hits is text"),
    ],
)
def test_inner_hits_that_cannot_be_shown_are_refused(service: httpx.Client, inner: Any, sentence: str) -> None:
    body = {"query": {"cross_lingual": {"query": "bread", "inner_hits": inner}}}
    answer = service.post("/demo/_search", json=body)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]["reason"]
