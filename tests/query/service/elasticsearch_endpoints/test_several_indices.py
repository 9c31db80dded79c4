"""One search of several indices, comma lists and patterns: in collections of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.collections.several_collections import joined
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.service.elasticsearch_endpoints.search_response import collapsed
from query.service.service_options import ServiceOptions
from trials.servers.service import serving

pytestmark = pytest.mark.parts


CLAUSE: dict[str, Any] = {"cross_lingual": {"query": "night trains", "lang": "en"}}


@pytest.fixture(scope="module")
def service(halves: Settings) -> Iterator[httpx.Client]:
    with serving(ServiceOptions(halves, device="cpu", log=True)) as client:
        yield client


def search(service: httpx.Client, index: str, query: Any = CLAUSE, **more: Any) -> dict[str, Any]:
    answer = service.post(f"/{index}/_search", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def places(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(hit["_index"], hit["_id"]) for hit in answer["hits"]["hits"]]


@contextmanager
def opened(halves: Settings, ranking: RankingOptions | None = None) -> Iterator[tuple[Searcher, Searcher]]:
    """Both as one, and the northern one, which may have a ranking of its own."""
    options = ranking or RankingOptions()
    with (
        Searcher.open("north", halves, device="cpu", ranking=options) as north,
        Searcher.open("south", halves, device="cpu") as south,
    ):
        yield joined({"north": north, "south": south}, {}), north


@pytest.mark.parametrize("index", ["north,south", "south,north", "*th", "n*,south", "north,*th"])
def test_several_indices_are_ranked_as_one_collection(halves: Settings, service: httpx.Client, index: str) -> None:
    answer = search(service, index, size=100, highlight={"fields": {"text": {}}}, explain=True)
    with opened(halves) as (both, _):
        hits = both.search("night trains", lang="en", k=100)
    assert sorted(places(answer)) == sorted(tuple(hit.doc_id.split("/", 1)) for hit in hits)
    assert [hit["_score"] for hit in answer["hits"]["hits"]] == pytest.approx([hit.score for hit in hits])
    assert {index for index, _ in places(answer)} == {"north", "south"}
    assert all(hit["highlight"]["text"] and hit["_source"]["title"] for hit in answer["hits"]["hits"])


def test_several_indices_are_reranked_as_one_collection(halves: Settings, reranker: ModelFolder) -> None:
    ranking = RankingOptions(rerank=str(reranker.path))
    with serving(ServiceOptions(halves, device="cpu", rerank=ranking.rerank)) as client:
        answer = search(client, "north,south", {"cross_lingual": {**CLAUSE["cross_lingual"], "rerank": True}}, size=40)
    with opened(halves, ranking) as (both, north):
        both.reranker = north.reranker
        fair = both.search("night trains", lang="en", k=40, ranking=RankingOptions())
        hits = both.search("night trains", lang="en", k=40)
    assert ["/".join(place) for place in places(answer)] == [hit.doc_id for hit in hits]
    assert [hit.doc_id for hit in hits] != [hit.doc_id for hit in fair]


def test_the_total_is_of_all_and_filters_and_least_scores_hold_in_each_index(service: httpx.Client) -> None:
    whole, both = search(service, "whole", size=0), search(service, "north,south", size=0)
    assert both["hits"]["total"] == whole["hits"]["total"]
    query = {"bool": {"must": CLAUSE, "filter": {"term": {"label": "health"}}}}
    both, whole = (search(service, index, query, size=200) for index in ("north,south", "whole"))
    assert {doc_id for _, doc_id in places(both)} == {doc_id for _, doc_id in places(whole)}
    bound = both["hits"]["hits"][4]["_score"]
    assert len(places(search(service, "north,south", query, size=200, min_score=bound))) == 5


def test_a_search_of_several_indices_is_counted_for_each_and_not_logged(service: httpx.Client) -> None:
    def count(name: str) -> float:
        start = f'dragoman_searches_total{{collection="{name}",lang="en"}} '
        lines = service.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))

    before = [count(name) for name in ("north", "south")]
    answer = service.post("/north,south/_search", json={"query": CLAUSE})
    assert "x-dragoman-search" not in answer.headers
    assert "x-dragoman-search" in service.post("/north/_search", json={"query": CLAUSE}).headers
    assert [count(name) for name in ("north", "south")] == [before[0] + 2, before[1] + 1]


def test_what_holds_in_one_collection_alone_is_refused(service: httpx.Client) -> None:
    cases: list[tuple[str, dict[str, Any], int, str]] = [
        *((names, {}, 404, f"no collection is served for the index '{names}'") for names in ("nope*", "nope*,none*")),
        ("north,nope", {}, 404, "no collection is served for the index 'nope'"),
        ("north,south", {"hybrid": True}, 400, "hybrid can't be combined with several indices"),
        ("north,south", {"rerank": True}, 400, "no reranker; start the service with --rerank FOLDER"),
        ("north,south", {"calibration": "abc"}, 400, "calibration can't be combined with several indices"),
        ("north,south", {"to": ["tlh"]}, 400, "collection north, south has no documents in 'tlh'"),
    ]
    for index, asked, status, sentence in cases:
        answer = service.post(
            f"/{index}/_search", json={"query": {"cross_lingual": {**CLAUSE["cross_lingual"], **asked}}}
        )
        assert answer.status_code == status
        assert sentence in answer.json()["error"]["reason"]
    assert places(search(service, "north,nope*")) == places(search(service, "north"))  # a pattern that matches nothing


def test_hits_are_collapsed_once_for_answer_and_log(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=collapsed)
    monkeypatch.setattr("query.service.elasticsearch_endpoints.searched_collections.collapsed", counted)
    answer = service.post("/north/_search", json={"query": CLAUSE, "collapse": {"field": "label"}})
    assert answer.headers["x-dragoman-search"]
    assert counted.call_count == 1


def test_one_subject_of_several_indices_is_shown_once(service: httpx.Client) -> None:
    collapse = {"field": "label", "inner_hits": {"size": 100}}
    hits = search(service, "north,south", collapse=collapse, size=100)["hits"]["hits"]
    labels = [hit["fields"]["label"][0] for hit in hits]
    assert len(set(labels)) == len(labels) > 2
    indices = [{under["_index"] for under in hit["inner_hits"]["label"]["hits"]["hits"]} for hit in hits]
    assert {"north", "south"} in indices
