"""``/api`` answers as the command does, and refuses in sentences."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database
from query.calibration import calibration_table
from query.query_log.judged_queries import logged_searches
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import Hit, as_json
from query.ranking.searcher import Searcher
from query.service.service_options import ServiceOptions
from tests.query.conftest import copied
from trials.servers.service import serving

BAKE, FLOOD = ("de", "Wie backe ich Brot ohne gekaufte Hefe?"), ("en", "flood in the old town")
QUERIES = (BAKE, ("ru", "ночные поезда"), ("ja", "眠れない夜に何をすればいいか"), ("ar", "من اخترع الطباعة؟"), FLOOD)
BREAD = "demo:de:sourdough"


def search(client: httpx.Client, query: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/api/search", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(client: httpx.Client, path: str = "/api/search", **asked: Any) -> tuple[int, str]:
    answer = client.post(path, json=asked)
    return answer.status_code, answer.json()["error"]


def answered(hit: Hit) -> dict[str, Any]:
    """A hit as the service answers it: with the documents about the same thing, even if there are none."""
    return {**as_json(hit), "also": [answered(other) for other in hit.also], "alike": hit.alike}


def rounded(hits: Iterable[dict[str, Any] | Hit]) -> list[dict[str, Any]]:
    """Hits with their numbers to 1e-5: float32 sums differ in the last digit by the documents compared at once."""
    shown = (answered(hit) if isinstance(hit, Hit) else hit for hit in hits)
    near = {"score", "cosine", "passage", "parts"}
    return [
        {**hit, **{key: pytest.approx(hit[key], abs=1e-5) for key in near & hit.keys()}, "also": rounded(hit["also"])}
        for hit in shown
    ]


@pytest.mark.parametrize("asked", [{}, {"balance": 0.0}, {"balance": 1.0}, {"calibration": "none"}])
def test_it_finds_what_the_command_finds(service: httpx.Client, calibrated: Settings, asked: dict[str, Any]) -> None:
    with Searcher.open("demo", calibrated, device="cpu", ranking=RankingOptions(**asked)) as searcher:
        for lang, text in QUERIES:
            found = search(service, text, lang=lang, explain=True, subjects=False, **asked)
            assert found["hits"] == rounded(searcher.search(text, lang=lang, explain=True))
            assert (found["lang"], found["confidence"], found["space"]) == (lang, None, searcher.space)


def test_subjects_are_answered_once_in_the_preferred_language(service: httpx.Client, calibrated: Settings) -> None:
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        several = set()
        for lang, text in QUERIES:
            for first, more in ((lang, {}), ("fr", {"prefer": ["fr", "tr"]})):
                asked: dict[str, Any] = {"lang": lang, "k": 5, "explain": True, **more}
                found = search(service, text, **asked)["hits"]
                assert found == rounded(searcher.search(text, subjects=True, **asked))
                assert all(hit["lang"] == first for hit in found if first in {other["lang"] for other in hit["also"]})
                several |= {lang for hit in found if hit["also"]}
    assert len(several) >= 3  # pages of the demo on one subject are no translations, and few are as near
    flat = search(service, text, lang=lang, k=5, subjects=False)
    assert not any(hit["also"] for hit in flat["hits"])
    assert (flat["note"], 0 < flat["good"] <= 5) == ("", True)
    unsure = search(service, "123 xyzzy", filters={"label": "helth"})
    assert (unsure["hits"], "'helth' in label, did you mean 'health'?" in unsure["note"]) == ([], True)


def test_a_document_that_is_shown_under_another_is_logged_as_shown_and_as_opened(own: Settings) -> None:
    with serving(ServiceOptions(own, device="cpu", log=True)) as client:
        found = search(client, "眠れない夜に何をすればいいか", subjects=True)
        opened = next(hit["also"][0]["id"] for hit in found["hits"] if hit["also"])
        query = {"cross_lingual": {"query": "眠れない夜に何をすればいいか", "lang": "ja"}}
        by_path = client.post("/demo/_search", json={"query": query}).headers["x-dragoman-search"]
        for asked in (found["search"], by_path):
            assert client.post("/api/clicks", json={"search": asked, "id": opened}).status_code == 204
    logged, other = logged_searches("demo", own)
    assert len(logged.hits) == sum(1 + len(hit["also"]) for hit in found["hits"])
    assert list(logged.relevant) == list(other.relevant) == [opened]


def test_the_language_is_detected_and_languages_and_fields_filter(service: httpx.Client) -> None:
    for lang, text in QUERIES:
        found = search(service, text)
        assert (found["lang"], 0 < found["confidence"] <= 1) == (lang, True)
    found = search(service, "bread", lang="en", to=["de", "fr"], filters={"label": "digital"}, k=50)
    assert {hit["lang"] for hit in found["hits"]} == {"de", "fr"}
    assert {hit["fields"]["label"] for hit in found["hits"]} == {"digital"}
    between = search(service, "bread", lang="en", filters={"label": {"gte": "digital", "lte": "digitam"}}, k=9)["hits"]
    assert {hit["fields"]["label"] for hit in between} == {"digital"}


def test_facets_count_the_best_documents_by_language_and_field(service: httpx.Client, calibrated: Settings) -> None:
    asked: dict[str, Any] = {"lang": "en", "to": ["de", "fr"], "filters": {"label": ["digital", "home"]}, "k": 2}
    asked["subjects"] = False
    found = search(service, "bread", facets=["lang", "label", "label"], **asked)
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        ours = searcher.search("bread", facets=["lang", "label"], **asked).facets
    assert ours
    assert found["facets"] == asdict(ours)


def test_documents_like_a_document_are_the_searchers(service: httpx.Client, calibrated: Settings) -> None:
    asked: dict[str, Any] = {"to": ["fr", "de", "ja"], "k": 7, "filters": {"label": ["food", "home"]}}
    answer = service.post("/api/similar", json={"collection": "demo", "id": BREAD, **asked}).json()
    with Searcher.open("demo", calibrated, device="cpu") as searcher:
        assert answer["hits"] == [{"parts": None, **answered(hit)} for hit in searcher.similar(BREAD, **asked)]
        assert (answer["id"], answer["lang"], answer["space"]) == (BREAD, "de", searcher.space)
    (only,) = service.post("/api/similar", json={"id": BREAD, "k": 1}).json()["hits"]
    assert only["lang"] != "de"


def test_what_has_no_like_is_refused_in_a_sentence(service: httpx.Client) -> None:
    for body, status, sentence in (
        ({"id": "nothing"}, 404, "collection demo has no document of this id"),
        ({"id": BREAD, "to": ["fi"]}, 409, "collection demo has no documents in 'fi'"),
        ({"query": "bread"}, 422, "the request is not as /openapi.json says"),
    ):
        given, said = refused(service, "/api/similar", **body)
        assert (given, said[: len(sentence)]) == (status, sentence)


def test_words_count_where_it_is_served_so(calibrated: Settings) -> None:
    with (
        serving(ServiceOptions(calibrated, device="cpu", hybrid=True)) as client,
        Searcher.open("demo", calibrated, device="cpu", ranking=RankingOptions(hybrid=True)) as hybrid,
        Searcher.open("demo", calibrated, device="cpu") as usual,
    ):
        (demo,) = client.get("/api/collections").json()["collections"]
        assert (demo["hybrid"], demo["calibration"]["mates"]) == (True, True)
        asked: dict[str, Any] = {"lang": "fr", "k": 30, "explain": True}
        found = [search(client, "Le Teil", **asked, subjects=False, **more)["hits"] for more in ({}, {"hybrid": False})]
        assert found == [rounded(searcher.search("Le Teil", **asked)) for searcher in (hybrid, usual)]
        assert found[0] != found[1]


@pytest.fixture
def own(calibrated_by_words: Settings, tmp_path: Path) -> Settings:
    return copied(calibrated_by_words.home, tmp_path)


def test_a_migrated_collection_is_asked_by_its_new_encoder(migrated_by_words: Settings, tmp_path: Path) -> None:
    """The migration was left, and is taken up again while the collection is served."""
    settings = copied(migrated_by_words.home, tmp_path)
    with open_database(settings.database) as engine:
        first, second = calibration_table.all_calibrations(engine, "demo")
        calibration_table.use(engine, require(engine, "demo"), first.id)
        with serving(ServiceOptions(settings, device="cpu")) as client:
            (before,) = client.get("/api/collections").json()["collections"]
            calibration_table.use(engine, require(engine, "demo"), second.id)
            (after,) = client.get("/api/collections").json()["collections"]
            assert before["method"] != after["method"] == "first"
            with Searcher.open("demo", settings, device="cpu") as searcher:
                assert after["model"] == searcher.spec.model != before["model"]
                for lang, text in QUERIES:
                    found = search(client, text, lang=lang, explain=True)
                    assert found["hits"] == rounded(searcher.search(text, lang=lang, explain=True, subjects=True))
                    assert found["space"] == searcher.space


UNKNOWN = ("frobnicate", "margin", "weights", "passages", "mates", "fold")


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        ({"query": "  "}, 422, "the query is empty"),
        ({"query": "coffee", "to": ["fi"]}, 409, "no documents in 'fi'; it has ar, de, en"),
        ({"query": "coffee", "lang": "fren"}, 409, "'fren' is no language code, did you mean 'fr'"),
        ({"query": "coffee", "prefer": ["de", "xx"]}, 409, "'xx' is no language code"),
        ({"query": "coffee", "collection": "nope"}, 404, "there is no collection 'nope'"),
        ([], 422, "the body: Input should be a valid dictionary"),
        ({"query": "coffee", "calibration": "ffff"}, 409, "no calibrations of demo begin with 'ffff'"),
        ({"query": "coffee", "calibration": "none", "balance": 0.5}, 409, "plain cosine has no balance"),
        ({"query": "coffee", "hybrid": True}, 409, "dragoman serve --hybrid"),
        ({"query": "coffee", "filters": {"label": {"gt": 1}}}, 422, "gte"),
        ({"query": "coffee", "filters": {"label": {"gte": 1, "lte": "b"}}}, 409, "or bounds as in"),
        ({"query": "coffee", "filters": {"label": ["a", "\udfff"]}}, 422, "half of a surrogate pair"),
        ({"query": "coffee", "\ud800": 1}, 422, "half of a surrogate pair"),
        *(({"query": "coffee", name: True}, 422, f"{name}: Extra inputs are not permitted") for name in UNKNOWN),
        *(({"query": "coffee", "balance": balance}, 422, "balance") for balance in (1.5, float("nan"))),
        ({"query": "coffee", "facets": ["labels"]}, 409, "^no document has the field 'labels',"),
        ({"query": "coffee", "filters": {"labels": "x"}}, 409, "field 'labels', did you mean 'label'"),
        *(({"query": "coffee", "k": k}, 422, "k: Input should be a valid integer") for k in (3.5, "10", True)),
        ({"query": "coffee", "collection": "a\x00"}, 422, "collection"),
    ],
)
def test_what_cannot_be_searched_is_a_sentence(service: httpx.Client, asked: Any, status: int, sentence: str) -> None:
    answer = service.post("/api/search", content=json.dumps(asked), headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert re.search(sentence, answer.json()["error"])


def test_a_body_that_cannot_be_read_is_a_sentence(service: httpx.Client) -> None:
    for media, body, sentence in (
        ("json", "{query: coffee}", "the body is no JSON from character 1 on"),
        ("json", "", "the body: Field required"),
        ("x-www-form-urlencoded", "{}", "JSON only with the header Content-Type: application/json"),
    ):
        answer = service.post("/api/search", content=body, headers={"Content-Type": f"application/{media}"})
        assert answer.status_code == 422
        assert sentence in answer.json()["error"]


def test_documents_are_read_by_their_id(service: httpx.Client) -> None:
    (hit,) = search(service, "sourdough bread", lang="en", k=1.0)["hits"]  # a whole number, as in JSON Schema
    document = service.get(f"/api/documents/{hit['id']}", params={"collection": "demo"}).json()
    assert document["title"] == hit["title"]
    content = f"{document['title']}\n{document['text']}"
    assert content[hit["passage"]["start"] : hit["passage"]["end"]] == hit["passage"]["text"]
    missing = service.get("/api/documents/no such/../document")
    assert missing.status_code == 404
    assert "no document of this id" in missing.json()["error"]


def test_health_readiness_and_metrics(service: httpx.Client) -> None:
    assert service.get("/api/health").json() == {"status": "ok"}
    assert service.get("/api/ready").json() == {"ready": True, "collections": {"demo": "ready"}}
    for _ in range(2):
        search(service, "a query that was asked twice", lang="en")
    metrics = service.get("/metrics").text
    for counter in ('requests_total{route="/api/search",status="200"}', 'query_vectors_total{kept="yes"}'):
        assert f"dragoman_{counter}" in metrics
    assert 'dragoman_searches_total{collection="demo",lang="en"}' in metrics


def test_another_method_on_our_path_gets_405_and_no_path_of_ours_404(service: httpx.Client) -> None:
    answer = service.post("/metrics")
    assert (answer.status_code, answer.json()) == (405, {"error": "this path does not take that method"})
    for path in ("/api", "/api/", "/api/nowhere", "/api/search/", "/api/documents", "/api/_search"):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = service.request(method, path, follow_redirects=False)
            assert (answer.status_code, answer.json()) == (404, {"error": "there is nothing at this path"})


def test_a_monitor_that_asks_for_heads_gets_them(calibrated: Settings) -> None:
    """Also while the Elasticsearch server behind the service does not answer."""
    with serving(ServiceOptions(calibrated, device="cpu", elastic="http://127.0.0.1:9")) as client:
        for path in ("/", "/api/health", "/api/ready"):
            head, whole = client.head(path), client.get(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["Content-Type"] == whole.headers["Content-Type"]
        assert "script-src" in client.head("/").headers["Content-Security-Policy"]
