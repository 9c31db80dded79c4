"""The clause on an alias, on each of its indices and on a pattern: one ranking, and each has its documents."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from elasticsearch import Elasticsearch, helpers

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.ledger import attach_ledger
from query.cli import run
from query.service.service_options import ServiceOptions
from tests.conftest import until
from trials import DEMO
from trials.servers.elastic import ElasticServer, client_of
from trials.servers.service import serving

pytestmark = pytest.mark.parts

LANGS = ("de", "en", "ja")
CLAUSE: dict[str, Any] = {"cross_lingual": {"query": "night trains", "lang": "en"}}


@dataclass
class Family:
    """Three indices of demo articles, one a language, behind the alias *fam*; and a service that searches them."""

    owner: Elasticsearch
    service: httpx.Client
    home: str

    def fill(self, lang: str) -> None:
        articles = map(json.loads, (DEMO / f"docs.{lang}.jsonl").read_text("utf-8").splitlines())
        sources = [{name: article[name] for name in ("title", "text", "label")} for article in articles]
        labels = {"properties": {"label": {"type": "keyword"}}}
        self.owner.indices.create(index=f"fam-{lang}", aliases={"fam": {}}, mappings=labels)
        helpers.bulk(
            self.owner,
            ({"_index": f"fam-{lang}", "_id": str(at), "_source": source} for at, source in enumerate(sources)),
            refresh=True,
        )

    def search(self, index: str, query: Any = CLAUSE, **more: Any) -> list[dict[str, Any]]:
        answer = self.service.post(f"/{index}/_search", json={"query": query, "size": 100, **more})
        assert answer.status_code == 200, answer.text
        hits: list[dict[str, Any]] = answer.json()["hits"]["hits"]
        return hits


@pytest.fixture(scope="module")
def family(
    elastic: ElasticServer, word_model: ModelFolder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Family]:
    home = str(tmp_path_factory.mktemp("family"))
    place = ["--home", home, "--device", "cpu", "-q", "--encoder", str(word_model.path)]
    fields = ["--text", "text", "--title", "title", "--store", elastic.url]
    with client_of(elastic.url) as owner:
        filled = Family(owner, httpx.Client(), home)
        for lang in LANGS:
            filled.fill(lang)
        assert run(["attach", "fam", "-c", "articles", *fields, *place]) == 0
        assert run(["index", str(DEMO / "docs.fr.jsonl"), "-c", "famous", "--no-calibration", *place]) == 0
        with serving(ServiceOptions(Settings.read(home=home), device="cpu", log=True)) as service:
            yield Family(owner, service, home)
        owner.indices.delete(index=[f"fam-{lang}" for lang in LANGS])


def places(hits: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    return {(hit["_index"], hit["_id"]): hit["_score"] for hit in hits}


def corrected(hits: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Cosines as the calibration corrects them: scores have also what mates in other indices add."""
    details = [{detail["description"]: detail["value"] for detail in hit["_explanation"]["details"]} for hit in hits]
    return dict(zip(places(hits), (of_hit["corrected"] for of_hit in details), strict=True))


def test_alias_index_and_pattern_have_their_documents_ranked_by_one_calibration(family: Family) -> None:
    every = corrected(family.search("fam", explain=True))
    assert {index for index, _ in every} == {f"fam-{lang}" for lang in LANGS}
    assert places(family.search("articles")) == places(family.search("fam-*")) == places(family.search("fam"))
    for name, langs in (("fam-de", ["de"]), ("fam-ja,fam-de", ["de", "ja"]), ("fam-j*,fam-nope*", ["ja"])):
        hits = corrected(family.search(name, explain=True))
        assert hits == pytest.approx({place: cosine for place, cosine in every.items() if place[0][4:] in langs})
    assert all("dragoman" not in hit["_source"] and hit["_source"]["title"] for hit in family.search("fam-de"))


def test_totals_and_filters_are_those_of_the_named_indices(family: Family) -> None:
    counts = {name: family.service.post(f"/{name}/_count", json={"query": CLAUSE}).json()["count"] for name in
              ("fam", "fam-de", "fam-*", "fam-de,fam-en")}  # fmt: skip
    assert counts == {"fam": 72, "fam-de": 24, "fam-*": 72, "fam-de,fam-en": 48}
    filtered = {"bool": {"must": CLAUSE, "filter": {"term": {"label": "health"}}}}
    health = family.search("fam", filtered)
    assert {hit["_source"]["label"] for hit in health} == {"health"}
    of_one = {place for place in places(health) if place[0] == "fam-en"}
    assert places(family.search("fam-en", filtered)).keys() == of_one
    hits = family.search("fam", collapse={"field": "label", "inner_hits": {"size": 100}})
    assert len({hit["fields"]["label"][0] for hit in hits}) == len(hits) > 2
    indices = [{under["_index"] for under in hit["inner_hits"]["label"]["hits"]["hits"]} for hit in hits]
    assert {f"fam-{lang}" for lang in LANGS} in indices


def test_a_document_is_found_by_its_index_and_id(family: Family) -> None:
    asked = {"query": "night trains", "lang": "en", "collection": "articles"}
    best = family.service.post("/api/search", json=asked).json()["hits"][0]["id"]
    index, _, own_id = best.partition("/")
    document = family.service.get(f"/api/documents/{best}", params={"collection": "articles"}).json()
    assert document["title"] == family.owner.get(index=index, id=own_id)["_source"]["title"]
    similar = family.service.post("/api/similar", json={"id": best, "collection": "articles"}).json()["hits"]
    assert {hit["id"].partition("/")[0] for hit in similar} == {f"fam-{lang}" for lang in LANGS} - {index}


def test_collections_of_their_own_are_not_searched_as_one(family: Family) -> None:
    cases = [
        *((name, 404, "no collection is served for the index") for name in ("nope*", "nope", "fam,nope", "fam-nope")),
        *((name, 400, "are collections of their own") for name in ("fam,famous", "fam-de,famous", "fam*")),
        ("fam-*,-fam-d*", 400, "leaves indices out"),
    ]
    for name, status, sentence in cases:
        answer = family.service.post(f"/{name}/_search", json={"query": CLAUSE})
        assert (answer.status_code, sentence in answer.json()["error"]["reason"]) == (status, True), answer.text


def test_a_new_index_is_searched_once_it_is_attached_and_a_deleted_one_is_left_out(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remember_and_search(*index: Any, remember: Any = attach_ledger.remember) -> None:
        remember(*index)  # a search now, before the index has our field, must not fix what is searched
        assert family.search("fam")

    until(lambda: family.service.post("/fam/_search", json={}).status_code == 200)
    family.fill("es")
    assert {index for index, _ in places(family.search("fam"))} == {f"fam-{lang}" for lang in LANGS}
    several = family.service.post(
        "/_msearch",
        content='{"index": "fam"}\n{"size": 100}\n{"index": ["fam-de"]}\n{"size": 100}\n',
        headers={"content-type": "application/x-ndjson"},
    ).json()["responses"]
    for hits in (family.search("fam", {"match_all": {}}), several[0]["hits"]["hits"]):
        assert {index for index, _ in places(hits)} == {f"fam-{lang}" for lang in LANGS}  # with the service's rights
    assert {index for index, _ in places(several[1]["hits"]["hits"])} == {"fam-de"}
    assert family.service.post("/fam-es/_search", json={}).status_code == 403
    monkeypatch.setattr(attach_ledger, "remember", remember_and_search)
    assert run(["attach", "-c", "articles", "--home", family.home, "--device", "cpu", "-q"]) == 0
    until(lambda: family.service.post("/fam-es/_search", json={"query": CLAUSE}).status_code == 200)
    assert {index for index, _ in places(family.search("fam"))} == {f"fam-{lang}" for lang in ("es", *LANGS)}
    until(lambda: family.service.post("/fam-es/_search", json={}).status_code == 200)
    family.owner.indices.delete(index="fam-es")
    assert family.search("fam", {"match_all": {}})
    until(lambda: family.service.post("/fam/_search", json={"query": CLAUSE}).status_code == 200)
    assert {index for index, _ in places(family.search("fam"))} == {f"fam-{lang}" for lang in LANGS}
