"""Searches that ask for it are reranked by the service's reranker, as the command reranks them; others are not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import as_json
from query.ranking.searcher import Searcher
from query.service.api_messages import SearchAnswer, SearchRequest
from query.service.api_routes import Api
from query.service.refusals import Refused
from query.service.service_options import ServiceOptions
from tests.conftest import Capture
from tests.query.service.agents.test_agent_tools import call, opened, refused, text
from trials.servers.service import serving

QUERY = {"query": "Der Imker Karl von Frisch und die Bienen im Garten", "lang": "de"}


@pytest.fixture(scope="module")
def api(calibrated_by_words: Settings, reranker: ModelFolder) -> Iterator[Api]:
    with opened(calibrated_by_words, str(reranker.path)) as made:
        yield made


def search(api: Api, **more: Any) -> SearchAnswer:
    return asyncio.run(api.search(SearchRequest.model_validate({**QUERY, "k": 40, "subjects": False, **more})))


@pytest.mark.parametrize("calibration", ["", "none"])
def test_it_reranks_as_the_command_does_and_says_how_long_it_took(
    calibration: str, calibrated_by_words: Settings, reranker: ModelFolder, api: Api
) -> None:
    ranking = RankingOptions(calibration=calibration, rerank=str(reranker.path))
    with Searcher.open("demo", calibrated_by_words, device="cpu", ranking=ranking) as searcher:
        expected = searcher.search(QUERY["query"], lang="de", k=40, explain=True)
    answer = search(api, calibration=calibration, rerank=True, explain=True)
    assert [hit.id for hit in answer.hits] == [hit.doc_id for hit in expected]
    assert answer.hits[0].parts
    assert answer.hits[0].parts.reranked == as_json(expected[0])["parts"]["reranked"]  # type: ignore[index]
    assert answer.reranking is not None
    assert 0 <= answer.reranking <= answer.took


def test_a_search_that_does_not_ask_for_it_is_not_reranked(calibrated_by_words: Settings, api: Api) -> None:
    reranked, answer = search(api, rerank=True), search(api)
    with opened(calibrated_by_words) as without:
        assert answer.hits == search(without).hits != reranked.hits
    assert answer.reranking is None
    active = reranked.calibration or ""
    for spelling in (active, active[:6]):
        assert search(api, rerank=True, calibration=spelling).hits == reranked.hits


def test_an_agent_s_search_is_reranked_and_says_so(api: Api) -> None:
    found = call(api, "search", **QUERY, rerank=True, k=5)
    expected = [hit.id for hit in search(api, rerank=True, subjects=True).hits[:5]]
    assert [hit["id"] for hit in found.structured_content["hits"]] == expected
    assert found.structured_content["reranking"] >= 0
    assert "; reranking took " in text(found)
    assert "; the reranker gives" in found.structured_content["hits"][0]["why"]
    assert call(api, "search", **QUERY).structured_content["reranking"] is None


def test_where_there_is_no_reranker_a_sentence_refuses(calibrated_by_words: Settings) -> None:
    sentence = "this service has no reranker; start the service with --rerank FOLDER"
    with opened(calibrated_by_words) as api:
        with pytest.raises(Refused, match=sentence) as refusal:
            search(api, rerank=True)
        assert refusal.value.status == 400
        assert refused(api, "search", **QUERY, rerank=True) == sentence
        assert asyncio.run(api.collections()).collections[0].reranker is None


def test_commands_open_the_reranker_before_they_answer(calibrated_by_words: Settings, capsys: Capture) -> None:
    for command in ("serve", "mcp"):
        assert run([command, "--rerank", "nowhere", "--home", str(calibrated_by_words.home)]) == 1
        assert "there is no reranker 'nowhere'" in capsys.readouterr().err


def test_the_clause_is_reranked_too(calibrated_by_words: Settings, reranker: ModelFolder, api: Api) -> None:
    expected = [hit.id for hit in search(api, rerank=True).hits]
    with serving(ServiceOptions(calibrated_by_words, device="cpu", rerank=str(reranker.path))) as served:
        clause = {"cross_lingual": {**QUERY, "rerank": True}}
        body = served.post("/demo/_search", json={"query": clause, "size": 40}).json()
        assert [hit["_id"] for hit in body["hits"]["hits"]] == expected
        assert served.get("/api/collections").json()["collections"][0]["reranker"] == "tokens"
