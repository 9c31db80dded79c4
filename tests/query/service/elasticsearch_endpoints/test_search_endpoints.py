"""An application written with plain elasticsearch-py points at the service and changes one clause."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from elasticsearch import ApiError, AuthorizationException, BadRequestError, Elasticsearch, NotFoundError, helpers

from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from query.query_log.judged_queries import logged_searches
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.service.service_options import ServiceOptions
from tests.conftest import fallen, read_documents
from trials.servers.elastic import client_of
from trials.servers.service import serving
from trials.service_attacks import forbidden_reads

LANGS = ("en", "de", "ja")
FIELDS = ("--text", "body", "--title", "headline", "--lang-field", "language", "--device", "cpu")


class Site:
    """Somebody's index of help pages, attached, a secret index beside it, and what the service is told."""

    def __init__(self, url: str, data: Path, home: Path) -> None:
        self.server, _, prefix = url.rpartition("/")
        self.index, self.secret = f"{prefix}-help", f"{prefix}-secret"
        self.documents = [
            document for lang in LANGS for document in read_documents(data / "lohelp" / f"docs.{lang}.jsonl.gz", 20)
        ]
        with client_of(self.server) as client:
            self.write(client, self.index, self.documents)
            client.index(index=self.secret, id="s", document={"body": "the secret"}, refresh=True)
        assert run(["attach", self.index, "-c", "help", "--store", url, *FIELDS, "--home", str(home), "-q"]) == 0
        self.options = ServiceOptions(Settings.read(home=home), device="cpu")

    def write(self, client: Elasticsearch, index: str, documents: Sequence[Document]) -> None:
        """Write help pages, as their owner does."""
        actions = ({"_index": index, **self._page(at, document)} for at, document in enumerate(documents))
        helpers.bulk(client, actions, refresh=True)

    def _page(self, at: int, document: Document) -> dict[str, Any]:
        source = {
            "headline": document.title,
            "body": document.text[:300],
            "language": document.lang,
            "year": 2000 + at % 5,
            "shelf": {"row": at % 2},
        }
        return {"_id": document.doc_id, "_source": source}


@pytest.fixture(scope="module")
def site(
    elastic: Any, data_dir: Path, default_folder: ModelFolder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    yield Site(f"{elastic.url}/front", data_dir, tmp_path_factory.mktemp("front"))
    with client_of(elastic.url) as client:
        client.indices.delete(index=["front-help", "front-secret"])


@pytest.fixture(scope="module")
def service(site: Site) -> Iterator[httpx.Client]:
    with serving(site.options) as client:
        yield client


@pytest.fixture(scope="module")
def application(service: httpx.Client) -> Iterator[Elasticsearch]:
    """What an application has: a client of its own, and another URL."""
    with client_of(str(service.base_url)) as client:
        yield client


def clause(text: str, **more: Any) -> dict[str, Any]:
    return {"cross_lingual": {"query": text, **more}}


pytestmark = pytest.mark.data


def test_hits_come_from_every_language_in_elasticsearchs_own_shape(site: Site, application: Elasticsearch) -> None:
    answer = application.search(
        index=site.index,
        query=clause("Makros debuggen", lang="de", balance=1.0),
        size=8,
        source={"includes": ["headline", "shelf.*"]},
        highlight={"fields": {"body": {}}, "pre_tags": ["<b>"], "post_tags": ["</b>"]},
    )
    hits = answer["hits"]["hits"]
    assert len(hits) == 8
    assert {site_language(site, hit["_id"]) for hit in hits} == set(LANGS)
    shown = {document.doc_id: document for document in site.documents}
    for hit in hits:
        assert hit["_index"] == site.index
        assert hit["_source"].keys() == {"headline", "shelf"}
        assert hit["_source"]["headline"] == shown[hit["_id"]].title
        (passage,) = hit["highlight"]["body"]
        assert passage.startswith("<b>")
        assert passage.endswith("</b>")
        assert passage[3:-4] in f"{shown[hit['_id']].title}\n{shown[hit['_id']].text}"
    assert [hit["_score"] for hit in hits] == sorted((hit["_score"] for hit in hits), reverse=True)
    assert answer["hits"]["max_score"] == hits[0]["_score"]
    assert answer["hits"]["total"] == {"value": 60, "relation": "eq"}
    assert answer.meta.headers["x-elastic-product"] == "Elasticsearch"


def site_language(site: Site, doc_id: str) -> str:
    return next(document.lang for document in site.documents if document.doc_id == doc_id)


def test_it_finds_what_the_searcher_finds(site: Site, application: Elasticsearch) -> None:
    with Searcher.open("help", site.options.settings, device="cpu") as searcher:
        for lang, text in (("en", "sort the rows of a table"), ("ja", "日付の関数")):
            found = application.search(index=site.index, query=clause(text, lang=lang), size=20)["hits"]["hits"]
            ours = searcher.search(text, lang=lang, k=20)
            assert [(hit["_id"], hit["_score"]) for hit in found] == [
                (hit.doc_id, pytest.approx(hit.score)) for hit in ours
            ]


@pytest.mark.parametrize("asked", [{"balance": 1.0}, {"balance": 0.0}, {"calibration": "none"}])
def test_it_ranks_as_the_clause_asks(site: Site, application: Elasticsearch, asked: dict[str, Any]) -> None:
    text = "sort the rows of a table in Calc"
    ranking = RankingOptions(**asked)
    with Searcher.open("help", site.options.settings, device="cpu", ranking=ranking) as searcher:
        expected: list[Any] = [(hit.doc_id, pytest.approx(hit.score)) for hit in searcher.search(text, lang="en", k=20)]

    def hits(**more: Any) -> list[tuple[str, float]]:
        found = application.search(index=site.index, query=clause(text, lang="en", **more), size=20)["hits"]["hits"]
        return [(hit["_id"], hit["_score"]) for hit in found]

    assert hits(**asked) == expected
    assert hits(**asked) != hits()


def test_pages_follow_each_other(site: Site, application: Elasticsearch) -> None:
    query = clause("printing", lang="en")
    whole = application.search(index=site.index, query=query, size=10)["hits"]["hits"]
    second = application.search(index=site.index, query=query, size=5, from_=5)["hits"]["hits"]
    assert [hit["_id"] for hit in second] == [hit["_id"] for hit in whole[5:]]


@pytest.mark.parametrize("to", [None, ["de", "ja"]])
@pytest.mark.parametrize("filters", [[], [{"range": {"year": {"gte": 2002}}}], [{"term": {"year": 1789}}]])
def test_the_total_is_the_number_of_hits_that_pages_go_through(
    site: Site, application: Elasticsearch, to: Sequence[str] | None, filters: Sequence[dict[str, Any]]
) -> None:
    asked = {"bool": {"must": clause("printing", lang="en", to=to), "filter": filters}}
    total = application.search(index=site.index, query=asked, size=0)["hits"]["total"]
    paged_through(application, site.index, asked, total)
    without_clause = {"bool": {"filter": [*filters, {"terms": {"language": to or LANGS}}]}}
    assert total == {"value": application.count(index=site.index, query=without_clause)["count"], "relation": "eq"}


def paged_through(application: Elasticsearch, index: str, query: dict[str, Any], total: dict[str, Any]) -> None:
    """See that every page says the same total, and that there are as many hits, each once."""
    seen: list[str] = []
    while True:
        hits = application.search(index=index, query=query, from_=len(seen), size=7)["hits"]
        assert hits["total"] == total
        if not hits["hits"]:
            break
        seen += [hit["_id"] for hit in hits["hits"]]
    assert len(seen) == len(set(seen)) == total["value"]


def test_ordinary_filters_hold(site: Site, application: Elasticsearch) -> None:
    filters: list[dict[str, Any]] = [{"range": {"year": {"gte": 2002, "lt": 2004}}}, {"term": {"shelf.row": 1}}]
    without = {"ids": {"values": [site.documents[3].doc_id]}}
    query = {"bool": {"must": clause("printing", lang="en"), "filter": filters, "must_not": without}}
    hits = application.search(index=site.index, query=query, size=100)["hits"]["hits"]
    expected = application.search(index=site.index, query={"bool": {"filter": filters, "must_not": without}}, size=100)[
        "hits"
    ]["hits"]
    assert {hit["_id"] for hit in hits} == {hit["_id"] for hit in expected}
    assert hits
    assert all("dragoman" not in hit["_source"] for hit in hits)


def test_the_clause_has_a_filter_as_knn_has_one(site: Site, application: Elasticsearch) -> None:
    """A clause or a list of clauses, beside filters of a bool: all must hold."""
    year, row = {"range": {"year": {"gte": 2002}}}, {"term": {"shelf.row": 1}}

    def found(query: dict[str, Any]) -> list[str]:
        return [hit["_id"] for hit in application.search(index=site.index, query=query, size=60)["hits"]["hits"]]

    both = found({"bool": {"must": clause("printing", lang="en"), "filter": [year, row]}})
    assert 0 < len(both) < 30
    assert found(clause("printing", lang="en", filter=[year, row])) == both
    assert found({"bool": {"must": clause("printing", lang="en", filter=year), "filter": row}}) == both
    assert len(found(clause("printing", lang="en", filter=row))) == 30


def test_an_index_with_vectors_beside_it_is_filtered_by_terms(site: Site, tmp_path: Path) -> None:
    home, theirs = str(tmp_path / "home"), "beside-help"
    with client_of(site.server) as direct:
        try:
            site.write(direct, theirs, site.documents[10:40])
            place = ["--store", f"{site.server}/beside", "--home", home, "-q"]
            assert run(["attach", theirs, "-c", "beside", "--companion", *FIELDS, *place]) == 0
            options = ServiceOptions(Settings.read(home=Path(home)), device="cpu")
            with serving(options) as client, client_of(str(client.base_url)) as application:

                def found(*filters: dict[str, Any]) -> set[str]:
                    query = {"bool": {"must": clause("printing", lang="en"), "filter": list(filters)}}
                    return {
                        hit["_id"] for hit in application.search(index=theirs, query=query, size=50)["hits"]["hits"]
                    }

                filters = {"term": {"year": 2003}}, {"terms": {"shelf.row": [1, 7]}}
                expected = direct.search(index=theirs, query={"bool": {"filter": list(filters)}}, size=50)["hits"][
                    "hits"
                ]
                assert found(*filters) == {hit["_id"] for hit in expected} != set()
                assert len(found()) == 30
                with pytest.raises(BadRequestError, match="range can't filter this collection"):
                    found({"range": {"year": {"gte": 2002}}})
                with pytest.raises(BadRequestError, match=r"language can't filter this collection.*with to"):
                    found({"term": {"language": "de"}})
        finally:
            direct.indices.delete(index=list(direct.indices.get(index="beside-*")))


def test_collapse_and_inner_hits_have_elasticsearchs_own_shape(site: Site, application: Elasticsearch) -> None:
    inner: dict[str, Any] = {"name": "years", "size": 4, "_source": ["headline"]}
    asked: dict[str, Any] = {"collapse": {"field": "year", "inner_hits": inner}, "size": 3, "source": ["year"]}
    query = clause("printing", lang="en", inner_hits={"size": 2})
    ranked = application.search(index=site.index, query=query, size=100)["hits"]["hits"]
    with client_of(site.server) as direct:
        theirs = direct.search(index=site.index, query={"match": {"language": "en"}}, **asked)
    for start in (0, 3):
        ours = application.search(index=site.index, query=query, **asked, from_=start)
        assert ours["hits"]["total"] == {"value": 60, "relation": "eq"}
        assert len(ours["hits"]["hits"]) == (3 if start == 0 else 2)
        for hit in ours["hits"]["hits"]:
            of_year = [other for other in ranked if other["_source"]["year"] == hit["fields"]["year"][0]]
            under = hit["inner_hits"]["years"]["hits"]
            assert [other["_id"] for other in under["hits"]] == [other["_id"] for other in of_year[:4]]
            assert under["total"] == {"value": len(of_year), "relation": "eq"}
            assert hit["_id"] == under["hits"][0]["_id"]
            assert under["hits"][0]["_source"].keys() == {"headline"}
            example = theirs["hits"]["hits"][0]
            assert hit.keys() == example.keys() - {"_ignored"}  # which texts no keyword sub-field took
            assert type(hit["fields"]["year"][0]) is type(example["fields"]["year"][0])
            assert under.keys() == example["inner_hits"]["years"]["hits"].keys()
            (their_under, *_) = example["inner_hits"]["years"]["hits"]["hits"]
            assert under["hits"][0].keys() - {"inner_hits"} == their_under.keys() - {"_ignored"}
            passages = hit["inner_hits"]["passages"]["hits"]["hits"]
            assert all(passage["_nested"]["field"] == "passages" for passage in passages)
    rows = application.search(index=site.index, query=query, collapse={"field": "shelf.row"})["hits"]["hits"]
    assert sorted(hit["fields"]["shelf.row"][0] for hit in rows) == [0, 1]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"search_after": [1]}, "search_after can't be combined"),
        ({"aggs": {"a": {"terms": {"field": "year"}}}}, "aggs can't be combined"),
        ({"sort": ["year"]}, "sort can't be combined"),
        ({"rescore": {"window_size": 5}}, "rescore can't be combined"),
        ({"collapse": {}}, "collapse is an object with a field"),
        ({"collapse": {"field": "body"}}, "body can't collapse, as it has texts"),
        ({"collapse": {"field": "shelf"}}, "more than one value"),
        ({"collapse": {"field": "nonsense"}}, "has no field 'nonsense'"),
        ({"version": True}, "version can't be combined.*the Elasticsearch cluster itself"),
        ({"seq_no_primary_term": True}, "seq_no_primary_term can't be combined"),
        ({"size": 2000}, "at most 1000 hits"),
        ({"query": {"bool": {"should": [{"cross_lingual": {"query": "a"}}]}}}, "bool.should can't be combined"),
        ({"query": {"bool": {"must": [{"cross_lingual": {"query": "a"}}, {"match": {"body": "a"}}]}}}, "alone"),
        ({"query": {"constant_score": {"filter": {"cross_lingual": {"query": "a"}}}}}, "can't stand there"),
        ({"query": {"cross_lingual": {"query": "a", "langs": "de"}}}, "has no 'langs'"),
        ({"query": {"cross_lingual": {"lang": "de"}}}, "query: Field required"),
        ({"query": {"cross_lingual": {"query": "a", "to": ["fi"]}}}, "no documents in 'fi'"),
        ({"query": {"cross_lingual": "a"}}, "is an object"),
        ({"query": {"cross_lingual": {"query": "a", "filter": 5}}}, "a clause of bool or filter is an object"),
        ({"query": {"cross_lingual": {"query": "a", "filter": {"cross_lingual": {"query": "a"}}}}}, "stands once"),
    ],
)
def test_what_cannot_be_honest_is_refused(
    site: Site, application: Elasticsearch, body: dict[str, Any], sentence: str
) -> None:
    asked = {"query": {"cross_lingual": {"query": "printing"}}, **body}
    with pytest.raises(BadRequestError, match=sentence) as refused:
        application.search(index=site.index, body=asked)
    assert refused.value.error == "illegal_argument_exception"


def test_parameters_that_would_be_forgotten_are_refused(site: Site, application: Elasticsearch) -> None:
    with pytest.raises(BadRequestError, match=r"routing can't be combined.*every shard"):
        application.search(index=site.index, query=clause("printing"), routing="a")
    with pytest.raises(BadRequestError, match="version can't be combined"):
        application.search(index=site.index, query=clause("printing"), version=True)
    assert application.search(index=site.index, query=clause("printing"), version=False)["hits"]["hits"]


def test_a_field_has_marks_of_its_own(site: Site, application: Elasticsearch) -> None:
    own = {"fields": {"body": {"pre_tags": ["[["]}}, "pre_tags": ["<b>"], "post_tags": ["</b>"]}
    (hit,) = application.search(index=site.index, query=clause("printing"), size=1, highlight=own)["hits"]["hits"]
    (passage,) = hit["highlight"]["body"]
    assert passage.startswith("[[")
    assert passage.endswith("</b>")


def test_a_filter_that_the_cluster_refuses_is_its_refusal(site: Site, application: Elasticsearch) -> None:
    query = {"bool": {"must": clause("printing"), "filter": {"nonsense": {"a": 1}}}}
    with pytest.raises(BadRequestError, match="nonsense"):
        application.search(index=site.index, query=query)


def test_searches_without_the_clause_are_the_clusters(site: Site, application: Elasticsearch) -> None:
    with client_of(site.server) as direct:
        asks: tuple[Callable[[Elasticsearch], Any], ...] = (
            lambda client: client.search(index=site.index, query={"match": {"body": "table"}}, aggs=_YEARS),
            lambda client: client.count(index=site.index),
            lambda client: client.msearch(searches=[{"index": site.index}, {"size": 1, "query": {"match_all": {}}}]),
            lambda client: client.search(index=site.index, sort=[{"year": "asc"}], search_after=[2002], size=3),
        )
        for ask in asks:
            mine, theirs = ask(application).body, ask(direct).body
            for answer in (mine, theirs):
                answer.pop("took", None)
                for response in answer.get("responses", []):
                    response.pop("took")
            assert mine == theirs


def test_other_calls_are_refused_and_name_the_cluster(site: Site, application: Elasticsearch) -> None:
    page = site.documents[0].doc_id
    asks: tuple[Callable[[], Any], ...] = (
        lambda: application.get(index=site.index, id=page),
        lambda: application.mget(index=site.index, ids=[page]),
        lambda: application.indices.get_mapping(index=site.index),
        lambda: application.field_caps(index=site.index, fields="year"),
        lambda: application.index(index=site.index, document={"body": "evil"}),
        lambda: application.bulk(index=site.index, operations=[{"delete": {"_id": page}}]),
        lambda: application.open_point_in_time(index=site.index, keep_alive="1m"),
        lambda: application.cluster.health(level="indices"),
        lambda: application.cat.indices(v=True),
    )
    for ask in asks:
        with pytest.raises(AuthorizationException, match="ask the Elasticsearch cluster itself") as refused:
            ask()
        assert site.server.rpartition("/")[2] not in str(refused.value)
    with pytest.raises(ApiError, match="PUT is not answered here; ask the Elasticsearch cluster itself") as put:
        application.perform_request("PUT", f"/{site.index}/_search", headers={"accept": "application/json"})
    assert put.value.meta.status == 405
    assert application.info()["tagline"] == "You Know, for Search"
    assert application.ping()


def test_several_searches_have_the_clause_or_not(site: Site, application: Elasticsearch) -> None:
    """Each is answered as by ``_search``, in its place; a search that can't be answered has its refusal there."""
    ours: dict[str, Any] = {"query": clause("printing", lang="en"), "size": 3}
    theirs: dict[str, Any] = {"query": {"match": {"body": "table"}}, "size": 2}
    refused = {"query": clause("printing"), "sort": ["year"]}
    searches: list[Any] = [{"index": site.index}, ours, {}, theirs, {"index": "nope"}, ours, {}, refused]
    searches += [{"index": [site.index], "preference": "a"}, {**ours, "size": 0}, {"routing": "a"}, ours, {}, theirs]
    answer = application.msearch(index=site.index, searches=searches, max_concurrent_searches=2)["responses"]
    (first, second, third, fourth, fifth, sixth, last) = answer
    whole = application.search(index=site.index, query=ours["query"], size=3)
    assert first["hits"] == whole["hits"]
    assert second["hits"] == last["hits"] == application.search(index=site.index, **theirs)["hits"]
    assert fifth["hits"]["total"] == whole["hits"]["total"]
    assert [response["status"] for response in answer] == [200, 200, 404, 400, 200, 400, 200]
    assert "no collection is served for the index 'nope'" in third["error"]["reason"]
    assert "sort can't be combined" in fourth["error"]["reason"]
    assert "routing can't be combined" in sixth["error"]["reason"]
    with pytest.raises(BadRequestError, match="at most 100 searches"):
        application.msearch(index=site.index, searches=[{}, ours] * 101)
    with pytest.raises(AuthorizationException, match="is no index of a collection"):
        application.msearch(searches=[{"index": site.index}, ours, {"index": site.secret}, theirs])


@pytest.mark.parametrize("to", [None, ["de", "ja"]])
@pytest.mark.parametrize("filters", [[], [{"range": {"year": {"gte": 2002}}}], [{"term": {"year": 1789}}]])
def test_a_count_is_the_number_of_documents_that_can_be_ranked(
    site: Site, application: Elasticsearch, to: Sequence[str] | None, filters: Sequence[dict[str, Any]]
) -> None:
    query = {"bool": {"must": clause("printing", lang="en", to=to), "filter": filters}}
    count = application.count(index=site.index, query=query)
    total = application.search(index=site.index, query=query, size=0)["hits"]["total"]
    assert count["count"] == total["value"]
    assert count["_shards"]["failed"] == 0


def test_a_count_refuses_what_a_search_refuses(site: Site, application: Elasticsearch) -> None:
    for query, sentence in (
        (clause("printing", to=["fi"]), "no documents in 'fi'"),
        (clause("printing", filter={"nonsense": {"a": 1}}), "Elasticsearch refused the search"),
    ):
        with pytest.raises(BadRequestError, match=sentence):
            application.count(index=site.index, query=query)
    with pytest.raises(BadRequestError, match="_count has a query alone; leave size out"):
        application.count(index=site.index, body={"query": clause("a"), "size": 1})
    with pytest.raises(BadRequestError, match="min_score can't be combined"):
        application.count(index=site.index, query=clause("a"), min_score=1.0)
    with pytest.raises(BadRequestError, match="is for indices in the path"):
        application.count(query=clause("a"))


def test_other_applications_leave_our_field_out_by_excluding_it(site: Site) -> None:
    """As the guide says; hits of the clause come without the field."""
    page, owners = site.documents[0].doc_id, {"headline", "body", "language", "year", "shelf"}
    with client_of(site.server) as direct:
        asks: tuple[Callable[..., Any], ...] = (
            lambda **excluding: direct.search(index=site.index, size=1, **excluding)["hits"]["hits"][0],
            lambda **excluding: direct.get(index=site.index, id=page, **excluding),
            lambda **excluding: direct.mget(index=site.index, ids=[page], **excluding)["docs"][0],
        )
        for ask in asks:
            assert ask()["_source"].keys() == {*owners, "dragoman"}
            assert ask(source_excludes=["dragoman"])["_source"].keys() == owners
        (hit,) = direct.search(index=site.index, size=1, source={"excludes": ["dragoman"]})["hits"]["hits"]
        assert hit["_source"].keys() == owners


_YEARS = {"years": {"terms": {"field": "year"}}}


_COLLATE = {"s": {"text": "a", "phrase": {"field": "body", "collate": {"query": {"source": "{}"}}}}}


@pytest.mark.parametrize("own", [{}, {"basic_auth": ("x", "y")}], ids=["none", "invented"])
def test_without_credentials_of_their_own_callers_read_the_collections_alone(
    site: Site, service: httpx.Client, own: dict[str, Any]
) -> None:
    """A cluster without security takes any credentials: those that somebody invents are none."""
    with client_of(str(service.base_url), **own) as application:
        reads_collections_alone(site, application)


def reads_collections_alone(site: Site, application: Elasticsearch) -> None:
    lookup = {"terms": {"body": {"index": site.secret, "id": "s", "path": "body"}}}
    asks: tuple[Callable[[], Any], ...] = (
        lambda: application.search(index=site.secret),
        lambda: application.count(index=site.secret),
        lambda: application.search(index=site.index, suggest=_COLLATE),
        lambda: application.search(index=site.index, indices_boost=[{site.secret: 2.0}]),
        lambda: application.search(index=f"{site.index},{site.secret}"),
        lambda: application.search(index="front-*"),
        lambda: application.search(index="*"),
        lambda: application.search(size=1),
        application.count,
        lambda: application.msearch(searches=[{"index": site.secret}, {}]),
        lambda: application.msearch(index=site.index, searches=[{"index": site.secret}, {}]),
        lambda: application.msearch(searches=[{}, {}]),
        lambda: application.search(index=site.index, query=lookup),
        lambda: application.search(index=site.index, query={"bool": {"must": clause("a"), "filter": lookup}}),
        lambda: application.search(index=site.index, query=clause("a", filter=lookup)),
        lambda: application.count(index=site.index, query=clause("a", filter=lookup)),
        lambda: application.search(index=site.index, query={"wrapper": {"query": "e30="}}),
        lambda: application.search(index=site.index, script_fields={"a": {"script": "1"}}),
        lambda: application.search(index=site.index, runtime_mappings={"a": {"type": "long", "script": "emit(1)"}}),
    )
    for ask in asks:
        with pytest.raises(AuthorizationException):
            ask()
    (response,) = application.msearch(index=site.index, searches=[{}, {"query": clause("a", filter=lookup)}])[
        "responses"
    ]
    assert response["status"] == 403
    with pytest.raises(BadRequestError, match="scroll is not taken here"):
        application.search(index=site.index, scroll="1m")
    assert application.search(index=site.index, size=1)["hits"]["hits"]
    assert application.search(index=site.index, query=clause("printing"), size=1)["hits"]["hits"]


def test_no_line_of_several_searches_hides_another(site: Site, service: httpx.Client) -> None:
    ask, secret = '{"query": {"match_all": {}}}', f'{{"index": "{site.secret}"}}'
    both = f'{{"index": "{site.index}", "indices": "{site.secret}"}}'
    empty = f'{{"index": "{site.index}", "indices": []}}'
    nothing = ('{"index": []}', '{"indices": []}', '{"index": null}', '{"index": ""}', '{"index": [""]}', empty)
    for lines in (
        *(("", ask, secret, ask), (" ", ask, secret, ask), ("\r", ask, secret, ask), (both, ask), ("[]", ask)),
        *((header, ask) for header in nothing),
    ):
        answer = service.post(
            f"/{site.index}/_msearch",
            content="\n".join((*lines, "")),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code in {400, 403}, answer.text
        assert "the secret" not in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/{index}/_search?index={secret}", {}),
        ("/{index}/_count?index={secret}", {}),
        ("/_msearch?index={secret}", None),
    ],
)
def test_an_index_is_nowhere_named_unseen(site: Site, service: httpx.Client, path: str, body: Any) -> None:
    """Elasticsearch reads indices in parameters and bodies, too."""

    def filled(text: str) -> str:
        return text.replace("{index}", site.index).replace("{secret}", site.secret)

    sent = None if body is None else filled(json.dumps(body))
    method = "GET" if body is None else "POST"
    answer = service.request(method, filled(path), content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 403}, answer.text
    assert "no index" in answer.text or "is not taken here" in answer.text
    assert site.secret not in answer.text.replace(f"'{site.secret}' is no index", "")


def test_no_call_and_no_name_reads_an_index_that_is_not_served(site: Site, service: httpx.Client) -> None:
    with client_of(site.server) as cluster:
        assert fallen(forbidden_reads(service, cluster, site.index, site.secret, "the secret")) == []


WRITES = [
    ("PUT", "/{index}/_doc/new"),
    ("POST", "/{index}/_doc"),
    ("PUT", "/{index}/_create/new"),
    ("POST", "/{index}/_update/one"),
    ("DELETE", "/{index}/_doc/one"),
    ("DELETE", "/{index}"),
    ("PUT", "/{index}"),
    ("PUT", "/front-new"),
    ("POST", "/_bulk"),
    ("POST", "/{index}/_bulk"),
    ("POST", "/{index}/_delete_by_query"),
    ("POST", "/{index}/_update_by_query"),
    ("POST", "/_reindex"),
    ("PUT", "/_scripts/evil"),
    ("POST", "/_scripts/evil"),
    ("PUT", "/{index}/_mapping"),
    ("PUT", "/{index}/_settings"),
    ("POST", "/{index}/_close"),
    ("POST", "/_aliases"),
    ("PUT", "/_cluster/settings"),
    ("POST", "/{index}/%5Fbulk"),
    ("POST", "/%5Fbulk"),
    ("POST", "/{index}/_search/../_bulk"),
    ("POST", "/{index}/_search/%2e%2e/_bulk"),
    ("POST", "/{index}/_search%2F..%2F_bulk"),
    ("POST", "/{index}%2F_bulk"),
    ("POST", "//{index}/_bulk"),
    ("POST", "/{index}//_bulk"),
    ("POST", "/./{index}/_bulk"),
    ("POST", "/{index}/_bulk/"),
    ("POST", "/{index}/_bulk;x=_search"),
    ("POST", "/{index}/_bulk%00_search"),
    ("POST", "/{index}/_bulk%3F/_search"),
    ("POST", "/{index}/_search\\..\\_bulk"),
    ("POST", "/api/..%2F{index}%2F_bulk"),
    ("POST", "/{index}/%255Fbulk"),
    ("POST", "/{index}/_doc%2Fone/_search"),
    ("PATCH", "/{index}/_doc/one"),
]


def test_nothing_is_written_whatever_the_spelling(site: Site, service: httpx.Client) -> None:
    body = f'{{"index": {{"_index": "{site.index}", "_id": "evil"}}}}\n{{"body": "evil"}}\n'
    overriding = {"X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/_bulk", "es-security-runas-user": "elastic"}
    with client_of(site.server) as direct:
        before = direct.indices.stats(index="front-*")["_all"]["primaries"]["indexing"]["index_total"]
        names = set(direct.indices.get(index="front-*"))
        for method, path in WRITES:
            raw = path.replace("{index}", site.index)
            for content_type in ("application/json", "application/x-ndjson", "text/plain"):
                request = service.build_request(
                    method, service.base_url, content=body, headers={"Content-Type": content_type, **overriding}
                )
                request.url = httpx.URL(str(service.base_url)).copy_with(raw_path=raw.encode())
                answer = service.send(request)
                assert 400 <= answer.status_code < 500, (method, path, answer.text)
        assert direct.indices.stats(index="front-*")["_all"]["primaries"]["indexing"]["index_total"] == before
        assert set(direct.indices.get(index="front-*")) == names


def test_bodies_that_two_readers_could_read_differently_are_refused(site: Site, service: httpx.Client) -> None:
    search, wide = f"/{site.index}/_search", '{"query": {"match_all": {}}}'.encode("utf-16")
    for content, content_type in (
        (b'{"size": 1, "size": 2}', "application/json"),
        (wide, "application/json"),
        (b"size: 1", "application/yaml"),
        (b"\xbf\x64size\x01\xff", "application/cbor"),
        (b"{" * 100_000, "application/json"),
    ):
        answer = service.post(search, content=content, headers={"Content-Type": content_type})
        assert answer.status_code in {400, 415}
    assert service.get(f"{search}?source=%7B%7D&source_content_type=application/json").status_code == 400
    assert service.get(f"{search}?error_trace=true").status_code == 400


def test_a_logged_search_says_its_id_for_clicks(calibrated: Settings, tmp_path: Path) -> None:
    shutil.copytree(calibrated.home, tmp_path / "home")
    own = Settings.read(home=tmp_path / "home")
    with serving(ServiceOptions(own, device="cpu", log=True)) as client:
        asked = {"query": {"cross_lingual": {"query": "ночные поезда", "lang": "ru"}}}
        answer = client.post("/demo/_search", json=asked)
        opened = answer.json()["hits"]["hits"][2]["_id"]
        click = {"search": answer.headers["x-dragoman-search"], "id": opened}
        assert client.post("/api/clicks", json=click).status_code == 204
    (search,) = logged_searches("demo", own)
    assert list(search.relevant) == [opened]


def test_a_collection_of_this_machine_answers_in_the_same_shape(calibrated: Settings) -> None:
    with (
        serving(ServiceOptions(calibrated, device="cpu")) as client,
        client_of(str(client.base_url)) as application,
    ):
        with pytest.raises(BadRequestError, match="give _search a cross_lingual clause"):
            application.search(index="demo", query={"match_all": {}})
        assert application.info()["tagline"] == "You Know, for Search"
        query = {"bool": {"must": [clause("Brot backen", lang="de")], "filter": [{"term": {"label": "digital"}}]}}
        answer = application.search(index="demo", query=query, highlight={"fields": {"*": {}}})
        assert answer["hits"]["hits"]
        assert {hit["_source"]["fields"]["label"] for hit in answer["hits"]["hits"]} == {"digital"}
        assert all(hit["highlight"]["text"] for hit in answer["hits"]["hits"])
        digital = sum(
            hit["fields"]["label"] == "digital"
            for hit in client.post("/api/search", json={"query": "Brot", "lang": "de", "k": 235}).json()["hits"]
        )
        assert answer["hits"]["total"] == {"value": digital, "relation": "eq"}
        paged_through(application, "demo", query, answer["hits"]["total"])
        with pytest.raises(BadRequestError, match="range can't filter this collection"):
            application.search(
                index="demo", query={"bool": {"must": clause("a"), "filter": {"range": {"a": {"gt": 1}}}}}
            )
        with pytest.raises(NotFoundError, match="no collection is served for the index 'nope'"):
            application.search(index="nope", query=clause("a"))
