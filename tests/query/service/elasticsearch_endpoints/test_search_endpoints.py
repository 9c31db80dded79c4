"""An application written with plain elasticsearch-py points at the service and changes one clause."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from elasticsearch import ApiError, AuthorizationException, BadRequestError, Elasticsearch

from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from query.service.service_options import ServiceOptions
from tests.conftest import fallen, read_documents
from trials.servers.elastic import client_of
from trials.servers.service import serving
from trials.service_attacks import forbidden_reads

LANGS = ("en", "de", "ja")
FIELDS = ("--text", "body", "--title", "headline", "--lang-field", "language", "--device", "cpu")
OWNERS = {"headline", "body", "language", "year", "shelf"}
SHELF = {"term": {"shelf.row": 1}}
pytestmark = pytest.mark.data


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
        for at, one in enumerate(documents):
            source = {"headline": one.title, "body": one.text[:300], "language": one.lang, "year": 2000 + at % 5}
            client.index(index=index, id=one.doc_id, document={**source, "shelf": {"row": at % 2}})
        client.indices.refresh(index=index)


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


@pytest.fixture
def direct(site: Site) -> Iterator[Elasticsearch]:
    with client_of(site.server) as client:
        yield client


class Application:
    """What an application has: a client of its own, another URL, and the name of an index."""

    def __init__(self, client: Elasticsearch, index: str) -> None:
        self.client, self.index = client, index

    def search(self, query: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The hits of an answer, and their total."""
        found: dict[str, Any] = self.client.search(index=self.index, query=query, **more)["hits"]
        return found

    def hits(self, query: dict[str, Any], size: int = 20, **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.search(query, size=size, **more)["hits"]
        return found

    def ids(self, query: dict[str, Any], size: int = 100) -> list[str]:
        return [hit["_id"] for hit in self.hits(query, size)]

    def scores(self, query: dict[str, Any]) -> list[tuple[str, float]]:
        return [(hit["_id"], hit["_score"]) for hit in self.hits(query)]

    def page_through(self, query: dict[str, Any], total: int) -> None:
        """See that every page says the total, and that pages follow each other."""
        seen: list[str] = []
        while (page := self.search(query, from_=len(seen), size=7))["hits"]:
            assert page["total"] == {"value": total, "relation": "eq"}
            seen += [hit["_id"] for hit in page["hits"]]
        assert page["total"]["value"] == total == len(set(seen))
        assert seen == self.ids(query)


@contextmanager
def applied(service: httpx.Client, index: str, **credentials: Any) -> Iterator[Application]:
    with client_of(str(service.base_url), **credentials) as client:
        yield Application(client, index)


@pytest.fixture(scope="module")
def application(service: httpx.Client, site: Site) -> Iterator[Application]:
    with applied(service, site.index) as opened:
        yield opened


def clause(text: str = "printing", lang: str | None = "en", **more: Any) -> dict[str, Any]:
    return {"cross_lingual": {"query": text, "lang": lang, **more}}


def filtered(*filters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"bool": {"must": clause(**more), "filter": list(filters)}}


def test_hits_come_from_every_language_in_elasticsearchs_own_shape(site: Site, application: Application) -> None:
    answer = application.client.search(
        index=site.index,
        query=clause("Makros debuggen", lang="de", balance=1.0),
        size=8,
        source={"includes": ["headline", "shelf.*"]},
        highlight={"fields": {"body": {"pre_tags": ["[["]}}, "pre_tags": ["<b>"], "post_tags": ["</b>"]},
    )
    hits, shown = answer["hits"]["hits"], {document.doc_id: document for document in site.documents}
    assert len(hits) == 8
    assert {shown[hit["_id"]].lang for hit in hits} == set(LANGS)
    for hit in hits:
        document = shown[hit["_id"]]
        assert hit["_index"] == site.index
        assert hit["_source"].keys() == {"headline", "shelf"}
        assert hit["_source"]["headline"] == document.title
        (passage,) = hit["highlight"]["body"]
        assert (passage[:2], passage[-4:]) == ("[[", "</b>")  # the field's own mark, and that of all
        assert passage[2:-4] in f"{document.title}\n{document.text}"
    assert answer["hits"]["max_score"] == hits[0]["_score"]
    assert answer.meta.headers["x-elastic-product"] == "Elasticsearch"


@pytest.mark.parametrize("asked", [{}, {"balance": 1.0}, {"balance": 0.0}, {"calibration": "none"}])
def test_it_ranks_as_the_searcher_does(site: Site, application: Application, asked: dict[str, Any]) -> None:
    ranking = RankingOptions(**asked)
    with Searcher.open("help", site.options.settings, device="cpu", ranking=ranking) as searcher:
        for lang, text in (("en", "sort the rows of a table in Calc"), ("ja", "日付の関数")):
            expected = [(hit.doc_id, pytest.approx(hit.score)) for hit in searcher.search(text, lang=lang, k=20)]
            found = application.scores(clause(text, lang, **asked))
            assert found == expected  # type: ignore[comparison-overlap]
            assert (found == application.scores(clause(text, lang))) == (not asked)


@pytest.mark.parametrize("to", [None, ["de", "ja"]])
@pytest.mark.parametrize("filters", [[], [{"range": {"year": {"gte": 2002}}}], [{"term": {"year": 1789}}]])
def test_total_and_count_are_the_number_of_hits(application: Application, to: list[str] | None, filters: Any) -> None:
    query = filtered(*filters, to=to)
    without_clause = {"bool": {"filter": [*filters, {"terms": {"language": to or LANGS}}]}}
    total = application.client.count(index=application.index, query=without_clause)["count"]
    application.page_through(query, total)
    count = application.client.count(index=application.index, query=query)
    assert (count["count"], count["_shards"]["failed"]) == (total, 0)


def test_filters_hold_beside_the_clause_and_in_it_as_in_knn(site: Site, application: Application) -> None:
    """A clause or a list of clauses, beside filters of a bool: all must hold."""
    year, without = {"range": {"year": {"gte": 2002}}}, {"ids": {"values": [site.documents[3].doc_id]}}
    conditions: dict[str, Any] = {"filter": [year, SHELF], "must_not": without}
    hits = application.hits({"bool": {"must": clause(), **conditions}}, 100)
    assert {hit["_id"] for hit in hits} == set(application.ids({"bool": conditions})) != set()
    assert all("dragoman" not in hit["_source"] for hit in hits)
    both = application.ids(filtered(year, SHELF))
    assert 0 < len(both) < 30
    assert application.ids(clause(filter=[year, SHELF])) == application.ids(filtered(SHELF, filter=year)) == both
    assert len(application.ids(clause(filter=SHELF))) == 30


def test_an_index_with_vectors_beside_is_filtered_by_terms(site: Site, direct: Elasticsearch, tmp_path: Path) -> None:
    home, theirs = str(tmp_path / "home"), "beside-help"
    place = ["--store", f"{site.server}/beside", "--home", home, "-q"]
    try:
        site.write(direct, theirs, site.documents[10:40])
        assert run(["attach", theirs, "-c", "beside", "--companion", *FIELDS, *place]) == 0
        options = ServiceOptions(Settings.read(home=Path(home)), device="cpu")
        with serving(options) as client, applied(client, theirs) as application:
            filters = {"term": {"year": 2003}}, {"terms": {"shelf.row": [1, 7]}}
            expected = Application(direct, theirs).ids({"bool": {"filter": list(filters)}})
            assert set(application.ids(filtered(*filters))) == set(expected) != set()
            assert len(application.ids(filtered())) == 30
            for asked, said in (({"range": {"year": {"gte": 2}}}, "range"), ({"term": {"language": "de"}}, "language")):
                with pytest.raises(BadRequestError, match=f"{said} can't filter this collection"):
                    application.ids(filtered(asked))
    finally:
        direct.indices.delete(index=list(direct.indices.get(index="beside-*")))


def test_collapse_and_inner_hits_have_their_shape(site: Site, application: Application, direct: Elasticsearch) -> None:
    inner: dict[str, Any] = {"name": "years", "size": 4, "_source": ["headline"]}
    asked: dict[str, Any] = {"collapse": {"field": "year", "inner_hits": inner}, "size": 3, "source": ["year"]}
    query = clause(inner_hits={"size": 2})
    ranked = application.hits(query, 100)
    example = Application(direct, site.index).hits({"match": {"language": "en"}}, **asked)[0]
    for start in (0, 3):
        ours = application.search(query, **asked, from_=start)
        assert ours["total"] == {"value": 60, "relation": "eq"}
        for hit in ours["hits"]:
            of_year = [other for other in ranked if other["_source"]["year"] == hit["fields"]["year"][0]]
            under = hit["inner_hits"]["years"]["hits"]
            assert [other["_id"] for other in under["hits"]] == [other["_id"] for other in of_year[:4]]
            assert under["total"] == {"value": len(of_year), "relation": "eq"}
            assert hit.keys() == example.keys() - {"_ignored"}  # which texts no keyword sub-field took
            assert type(hit["fields"]["year"][0]) is type(example["fields"]["year"][0])
            their_under = example["inner_hits"]["years"]["hits"]
            assert under.keys() == their_under.keys()
            assert under["hits"][0].keys() - {"inner_hits"} == their_under["hits"][0].keys() - {"_ignored"}
            passages = hit["inner_hits"]["passages"]["hits"]["hits"]
            assert all(passage["_nested"]["field"] == "passages" for passage in passages)
    rows = application.hits(query, collapse={"field": "shelf.row"})
    assert sorted(hit["fields"]["shelf.row"][0] for hit in rows) == [0, 1]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"search_after": [1]}, "search_after can't be combined"),
        ({"aggs": {"a": {"terms": {"field": "year"}}}}, "aggs can't be combined"),
        ({"collapse": {"field": "body"}}, "body can't collapse, as it has texts"),
        ({"collapse": {"field": "shelf"}}, "more than one value"),
        ({"collapse": {"field": "nonsense"}}, "has no field 'nonsense'"),
        ({"version": True}, "version can't be combined.*the Elasticsearch cluster itself"),
        ({"size": 2000}, "at most 1000 hits"),
        ({"query": {"bool": {"should": [clause()]}}}, "bool.should can't be combined"),
        ({"query": {"bool": {"must": [clause(), {"match": {"body": "a"}}]}}}, "alone"),
        ({"query": {"constant_score": {"filter": clause()}}}, "can't stand there"),
        ({"query": clause(langs="de")}, "has no 'langs'"),
        ({"query": {"cross_lingual": {"lang": "de"}}}, "query: Field required"),
        ({"query": {"cross_lingual": "a"}}, "is an object"),
        ({"query": clause(filter=5)}, "a clause of bool or filter is an object"),
        ({"query": clause(filter=clause())}, "stands once"),
        ({"query": filtered({"nonsense": {"a": 1}})}, "nonsense"),
    ],
)
def test_what_cannot_be_honest_is_refused(application: Application, body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequestError, match=sentence) as refused:
        application.client.search(index=application.index, body={"query": clause(), **body})
    assert refused.value.error == "illegal_argument_exception"


def test_parameters_that_would_be_forgotten_are_refused(application: Application) -> None:
    asked: dict[str, Any]
    for asked, said in (({"routing": "a"}, "routing can't be .*every shard"), ({"version": True}, "version can't be")):
        with pytest.raises(BadRequestError, match=said):
            application.search(clause(), **asked)
    assert application.hits(clause(), version=False)


def test_searches_without_clause_are_the_clusters(site: Site, application: Application, direct: Elasticsearch) -> None:
    years = {"years": {"terms": {"field": "year"}}}
    asks: tuple[Callable[[Elasticsearch], Any], ...] = (
        lambda client: client.search(index=site.index, query={"match": {"body": "table"}}, aggs=years),
        lambda client: client.count(index=site.index),
        lambda client: client.msearch(searches=[{"index": site.index}, {"size": 1, "query": {"match_all": {}}}]),
        lambda client: client.search(index=site.index, sort=[{"year": "asc"}], search_after=[2002], size=3),
    )
    for ask in asks:
        mine, theirs = ask(application.client).body, ask(direct).body
        for answer in (mine, theirs):
            answer.pop("took", None)
            for response in answer.get("responses", []):
                response.pop("took")
        assert mine == theirs


def test_other_calls_are_refused_and_name_the_cluster(site: Site, application: Application) -> None:
    page, index, client = site.documents[0].doc_id, site.index, application.client
    json = {"accept": "application/json", "content-type": "application/json"}
    for method, path in (
        *(("GET", f"/{index}/{call}") for call in (f"_doc/{page}", "_mapping", "_field_caps?fields=year")),
        *(("POST", f"/{index}/{call}") for call in ("_mget", "_doc", "_bulk", "_pit?keep_alive=1m")),
        *(("GET", path) for path in ("/_cluster/health", "/_cat/indices")),
    ):
        with pytest.raises(AuthorizationException, match="ask the Elasticsearch cluster itself") as refused:
            client.perform_request(method, path, headers=json, body=None if method == "GET" else {"ids": [page]})
        assert site.server.rpartition("/")[2] not in str(refused.value)
    with pytest.raises(ApiError, match="PUT is not answered here; ask the Elasticsearch cluster itself") as put:
        client.perform_request("PUT", f"/{index}/_search", headers={"accept": "application/json"})
    assert put.value.meta.status == 405
    assert client.info()["tagline"] == "You Know, for Search"
    assert client.ping()


def test_several_searches_have_the_clause_or_not(site: Site, application: Application) -> None:
    """Each is answered as by ``_search``, in its place; a search that can't be answered has its refusal there."""
    ours: dict[str, Any] = {"query": clause(), "size": 3}
    theirs: dict[str, Any] = {"query": {"match": {"body": "table"}}, "size": 2}
    searches: list[Any] = [{"index": site.index}, ours, {}, theirs, {"index": "nope"}, ours]
    searches += [{}, {**ours, "sort": ["year"]}, {"index": [site.index], "preference": "a"}, {**ours, "size": 0}]
    searches += [{"routing": "a"}, ours, {}, theirs]
    client = application.client
    answer = client.msearch(index=site.index, searches=searches, max_concurrent_searches=2)["responses"]
    (first, second, third, fourth, fifth, sixth, last) = answer
    whole = application.search(**ours)
    assert first["hits"] == whole
    assert second["hits"] == last["hits"] == application.search(**theirs)
    assert fifth["hits"]["total"] == whole["total"]
    assert [response["status"] for response in answer] == [200, 200, 404, 400, 200, 400, 200]
    assert "no collection is served for the index 'nope'" in third["error"]["reason"]
    assert "sort can't be combined" in fourth["error"]["reason"]
    assert "routing can't be combined" in sixth["error"]["reason"]
    with pytest.raises(BadRequestError, match="at most 100 searches"):
        client.msearch(index=site.index, searches=[{}, ours] * 101)
    with pytest.raises(AuthorizationException, match="is no index of a collection"):
        client.msearch(searches=[{"index": site.index}, ours, {"index": site.secret}, theirs])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"query": clause(to=["fi"])}, "no documents in 'fi'"),
        ({"query": clause(filter={"nonsense": {"a": 1}})}, "Elasticsearch refused the search"),
        ({"body": {"query": clause(), "size": 1}}, "_count has a query alone; leave size out"),
        ({"query": clause(), "min_score": 1.0}, "min_score can't be combined"),
        ({"query": clause(), "index": None}, "is for indices in the path"),
    ],
)
def test_a_count_refuses_what_a_search_refuses(application: Application, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequestError, match=sentence):
        application.client.count(**{"index": application.index, **asked})


def test_other_applications_leave_our_field_out_by_excluding_it(site: Site, direct: Elasticsearch) -> None:
    """As the guide says; hits of the clause come without the field."""
    for ask in (lambda **more: direct.search(index=site.index, size=1, **more)["hits"]["hits"][0],
                lambda **more: direct.get(index=site.index, id=site.documents[0].doc_id, **more)):  # fmt: skip
        assert ask()["_source"].keys() == {*OWNERS, "dragoman"}
        assert ask(source_excludes=["dragoman"])["_source"].keys() == OWNERS


@pytest.mark.parametrize("own", [{}, {"basic_auth": ("x", "y")}], ids=["none", "invented"])
def test_without_credentials_collections_alone_are_read(site: Site, service: httpx.Client, own: dict[str, Any]) -> None:
    """A cluster without security takes any credentials: those that somebody invents are none."""
    lookup = {"terms": {"body": {"index": site.secret, "id": "s", "path": "body"}}}
    collate = {"s": {"text": "a", "phrase": {"field": "body", "collate": {"query": {"source": "{}"}}}}}
    script = {"a": {"type": "long", "script": "emit(1)"}}
    index, secret = site.index, site.secret
    with applied(service, index, **own) as application:
        client = application.client
        asks: tuple[Callable[[], Any], ...] = (
            *(lambda name=name: client.search(index=name) for name in (secret, f"{index},{secret}", "*")),
            *(lambda name=name: client.count(index=name) for name in (secret, None)),
            lambda: client.search(size=1),
            *(lambda header=header: client.msearch(searches=[header, {}]) for header in ({"index": secret}, {})),
            *(lambda query=query: application.search(query) for query in (lookup, clause(filter=lookup))),
            lambda: client.count(index=index, query=clause(filter=lookup)),
            lambda: application.search({"wrapper": {"query": "e30="}}),
            lambda: client.search(index=index, suggest=collate),
            lambda: client.search(index=index, script_fields={"a": {"script": "1"}}),
            lambda: client.search(index=index, runtime_mappings=script),
        )
        for ask in asks:
            with pytest.raises(AuthorizationException):
                ask()
        (response,) = client.msearch(index=index, searches=[{}, {"query": clause(filter=lookup)}])["responses"]
        assert response["status"] == 403
        with pytest.raises(BadRequestError, match="scroll is not taken here"):
            client.search(index=index, scroll="1m")
        assert application.hits({"match_all": {}}, 1)
        assert application.hits(clause(), 1)


def test_an_index_that_is_not_served_is_read_by_no_call_no_name_and_no_line_of_several_searches(
    site: Site, service: httpx.Client, direct: Elasticsearch
) -> None:
    assert fallen(forbidden_reads(service, direct, site.index, site.secret, "the secret")) == []
    ask, secret, headers = '{"size": 1}', f'{{"index": "{site.secret}"}}', {"Content-Type": "application/x-ndjson"}
    more = [f'{{"index": "{site.index}", "indices": {names}}}' for names in (f'"{site.secret}"', "[]")]
    nothing = ("[]", '{"index": []}', '{"indices": []}', '{"index": null}', '{"index": ""}', '{"index": [""]}')
    blanks = [(blank, ask, secret, ask) for blank in ("", " ", "\r")]
    for lines in (*blanks, *((header, ask) for header in (*more, *nothing))):
        answer = service.post(f"/{site.index}/_msearch", content="\n".join((*lines, "")), headers=headers)
        assert answer.status_code in {400, 403}, answer.text
        assert "the secret" not in answer.text


WRITES = {
    "PUT": r"""{index}/_doc/new {index}/_create/new {index} front-new _scripts/evil {index}/_mapping {index}/_settings
        _cluster/settings""",
    "DELETE": "{index}/_doc/one {index}",
    "PATCH": "{index}/_doc/one",
    "POST": r"""{index}/_doc {index}/_update/one _bulk {index}/_bulk {index}/_delete_by_query {index}/_update_by_query
        _reindex _scripts/evil {index}/_close _aliases {index}/%5Fbulk %5Fbulk {index}/_search/../_bulk
        {index}/_search/%2e%2e/_bulk {index}/_search%2F..%2F_bulk {index}%2F_bulk /{index}/_bulk {index}//_bulk
        ./{index}/_bulk {index}/_bulk/ {index}/_bulk;x=_search {index}/_bulk%00_search {index}/_bulk%3F/_search
        {index}/_search\..\_bulk api/..%2F{index}%2F_bulk {index}/%255Fbulk {index}/_doc%2Fone/_search""",
}


def test_nothing_is_written_whatever_the_spelling(site: Site, service: httpx.Client, direct: Elasticsearch) -> None:
    body = f'{{"index": {{"_index": "{site.index}", "_id": "evil"}}}}\n{{"body": "evil"}}\n'
    overriding = {"X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/_bulk", "es-security-runas-user": "elastic"}

    def written() -> tuple[int, set[str]]:
        stats = direct.indices.stats(index="front-*")["_all"]["primaries"]["indexing"]["index_total"]
        return stats, set(direct.indices.get(index="front-*"))

    before, url = written(), httpx.URL(str(service.base_url))
    for method, path in ((method, path) for method, paths in WRITES.items() for path in paths.split()):
        for content_type in ("application/json", "application/x-ndjson", "text/plain"):
            headers = {"Content-Type": content_type, **overriding}
            request = service.build_request(method, service.base_url, content=body, headers=headers)
            request.url = url.copy_with(raw_path=f"/{path.replace('{index}', site.index)}".encode())
            answer = service.send(request)
            assert 400 <= answer.status_code < 500, (method, path, answer.text)
    assert written() == before


def test_bodies_that_two_readers_could_read_differently_are_refused(site: Site, service: httpx.Client) -> None:
    search, kind = f"/{site.index}/_search", "application/"
    for content, content_type in (
        *((content, "json") for content in (b'{"size": 1, "size": 2}', '{"size": 1}'.encode("utf-16"), b"{" * 100_000)),
        (b"size: 1", "yaml"),
        (b"\xbf\x64size\x01\xff", "cbor"),
    ):
        answer = service.post(search, content=content, headers={"Content-Type": kind + content_type})
        assert answer.status_code in {400, 415}
    for parameters in ("source=%7B%7D&source_content_type=application/json", "error_trace=true"):
        assert service.get(f"{search}?{parameters}").status_code == 400
