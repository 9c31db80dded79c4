"""Values of a search with the clause that no number, field or text can be: each is refused in a sentence."""

from typing import Any

import httpx
import pytest

from indexer.cluster.cluster_errors import SearchRefused
from query.service.refusals import refusal
from trials.service_attacks import CLAUSE, VALUES, odd_value


@pytest.mark.parametrize(("parameters", "more", "sentence"), VALUES)
def test_wrong_types_are_refused(service: httpx.Client, parameters: str, more: dict[str, Any], sentence: str) -> None:
    assert odd_value(service, parameters, more, sentence) == ""


def test_what_is_too_long_for_the_cluster_is_the_callers_to_shorten() -> None:
    assert refusal(SearchRefused("http://host:9200", 413, "no reason given")).status == 413


NOTHING: dict[str, Any] = {"max_score": None, "hits": []}


def searched(service: httpx.Client, query: Any = CLAUSE, **more: Any) -> dict[str, Any]:
    answer = service.post("/demo/_search", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["hits"]
    return found


def clause(**more: Any) -> dict[str, Any]:
    return {"cross_lingual": {"query": "flood in the old town", "lang": "en", **more}}


def test_the_clauses_own_filter_holds_in_a_collection_of_this_machine(service: httpx.Client) -> None:
    label = {"term": {"label": "digital"}}
    inner = searched(service, clause(filter=[label]))
    assert inner == searched(service, {"bool": {"must": clause(), "filter": label}})
    assert inner["hits"]


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        (False, None),
        (True, {"title", "text", "lang", "fields"}),
        ("t*", {"title", "text"}),
        ({"excludes": ["text", "fields"]}, {"title", "lang"}),
    ],
)
def test_a_source_is_shown_as_it_is_asked_for(service: httpx.Client, source: Any, fields: set[str] | None) -> None:
    hits = searched(service, _source=source)["hits"]
    if fields is None:
        hits += service.post("/demo/_search?_source=false", json={"query": CLAUSE}).json()["hits"]["hits"]
    assert len(hits) >= 10
    assert all((set(hit["_source"]) if "_source" in hit else None) == fields for hit in hits)


def test_an_explanation_has_numbers_and_names_the_mate_that_adds_most_to_a_hit(service: httpx.Client) -> None:
    hits = searched(service, clause(), explain=True)["hits"]
    details = [detail for hit in hits for detail in hit["_explanation"]["details"]]
    assert {type(detail["value"]) for detail in details} == {float}
    assert any(detail["description"].startswith("added by mates, the best of them demo:") for detail in details)


def test_hits_below_the_least_score_are_left_out(service: httpx.Client) -> None:
    every = searched(service, size=40)["hits"]
    bound = every[25]["_score"]
    reaching = [hit for hit in every if hit["_score"] >= bound]
    whole = searched(service, size=40, min_score=bound)
    assert whole["hits"] == reaching
    assert whole["total"] == {"value": len(reaching), "relation": "eq"}
    pages = [searched(service, size=10, min_score=bound, **{"from": start}) for start in range(0, 50, 10)]
    assert [hit for page in pages for hit in page["hits"]] == reaching
    assert [page["total"]["relation"] for page in pages] == ["gte", "gte", "eq", "eq", "eq"]
    assert searched(service, min_score=1000) == {**whole, "total": {**whole["total"], "value": 0}, **NOTHING}


def test_passages_are_shown_under_a_hit_as_inner_hits_of_a_nested_field(service: httpx.Client) -> None:
    def found(inner: dict[str, Any], size: int) -> list[dict[str, Any]]:
        highlight: dict[str, Any] = {"fields": {"text": {}}}
        hits: list[dict[str, Any]] = searched(service, clause(inner_hits=inner), highlight=highlight, size=size)["hits"]
        return hits

    several = 0
    for hit in found({"size": 50}, 10):
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
    (hit,) = found({"name": "best", "size": 1, "_source": ["start"]}, 1)
    assert [one["_source"].keys() for one in hit["inner_hits"]["best"]["hits"]["hits"]] == [{"start"}]
    (hit,) = found({"from": 1, "size": 1, "_source": False}, 1)
    assert all("_source" not in passage for passage in hit["inner_hits"]["passages"]["hits"]["hits"])


def test_a_field_collapses_by_its_usual_names_and_languages_too(service: httpx.Client) -> None:
    def values(field: str) -> list[str]:
        return [hit["fields"][field][0] for hit in searched(service, collapse={"field": field}, size=100)["hits"]]

    assert values("label") == values("fields.label") == values("label.keyword")
    assert len(set(values("lang"))) == len(values("lang")) == 10


def collapsing(field: str, **more: Any) -> dict[str, Any]:
    return {"collapse": {"field": field, **more}}


LABELS: list[Any] = [None, {"value": {}}, "\ud800"]
FILTERS: list[Any] = [{"term": {"label": label}} for label in LABELS] + [{"term": {"\ud800": "a"}}]
FILTERS += [{"terms": {"label": [["a"]]}}, {"terms": {"label": {"a": 1}}}]
NAMES = ("subjects", "prefer", "margin", "weights", "passages", "mates")


@pytest.mark.parametrize(
    ("inside", "beside", "sentence"),
    [
        *(({name: True}, {}, f"cross_lingual has no '{name}'") for name in NAMES),
        ({}, collapsing("title"), "title can't collapse, as it has texts"),
        ({}, collapsing("nonsense"), "no document has the field 'nonsense'"),
        ({}, collapsing("label", collapse={"field": "lang"}), "collapse has no 'collapse' here"),
        ({}, collapsing("label", inner_hits=[{}, {}]), "two inner_hits of collapse have one name"),
        ({"inner_hits": {}}, collapsing("label", inner_hits={"name": "passages"}), "have one name"),
        ({}, {"collapse": "label"}, "collapse is an object with a field"),
        ({"inner_hits": 5}, {}, "inner_hits is an object"),
        ({"inner_hits": {"sort": []}}, {}, "inner_hits has no 'sort' here"),
        ({"inner_hits": {"size": 101}}, {}, "at most 100 are shown"),
        ({"inner_hits": {"size": -1}}, {}, "size must be a number"),
        ({"inner_hits": {"name": 5}}, {}, "name of inner_hits is text"),
        ({}, {"query": {"match_all": {}}}, "give _search a cross_lingual clause"),
        ({}, {"query": {"bool": {"must": CLAUSE, "filter": {"range": {"a": {"gt": 1}}}}}}, "range can't filter this"),
        *(({}, {"query": {"bool": {"must": CLAUSE, "filter": condition}}}, "") for condition in FILTERS),
    ],
)
def test_what_cannot_be_shown_is_refused(
    service: httpx.Client, inside: dict[str, Any], beside: dict[str, Any], sentence: str
) -> None:
    """An answer has a document a hit, and neither subjects nor switches."""
    assert odd_value(service, "", {"query": clause(**inside), **beside}, sentence) == ""
