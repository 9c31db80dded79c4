"""With security on, the cluster's rules hold for callers who send their own credentials: on a real server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from elasticsearch import AuthenticationException, AuthorizationException, Elasticsearch

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from query.service.access import Token
from query.service.service_options import ServiceOptions
from tests.conftest import fallen, read_documents, until
from trials.servers.elastic import PASSWORD, ElasticServer, client_of
from trials.servers.secured import admin, credentials
from trials.servers.service import serving
from trials.service_attacks import LENGTHS, LONG_NAMES, SECRET, long_header, served


@dataclass
class Site:
    """A secured server with an attached index, and what the service is told."""

    server: ElasticServer
    options: ServiceOptions


@pytest.fixture(scope="module")
def site(
    secured: ElasticServer, tmp_path_factory: pytest.TempPathFactory, data_dir: Path, default_folder: ModelFolder
) -> Iterator[Site]:
    with admin(secured) as client:
        _fill(client, data_dir)
        home, url = tmp_path_factory.mktemp("rights"), secured.url.replace("://", f"://admin:{quote(PASSWORD)}@")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DRAGOMAN_ELASTIC_CA", str(secured.ca))
            _attach(url, home)
        settings = replace(Settings.read(home=home), credentials=credentials(secured, "admin"))
        yield Site(secured, ServiceOptions(settings, device="cpu"))
        client.indices.delete(index=["pages", "others"])


def _attach(url: str, home: Path) -> None:
    fields = ["--text", "body", "--title", "headline", "--lang", "en", "--device", "cpu", "-q", "--no-calibration"]
    assert run(["attach", "pages", "-c", "pages", "--store", url, *fields, "--home", str(home)]) == 0


def _fill(client: Elasticsearch, data: Path) -> None:
    for at, one in enumerate(read_documents(data / "lohelp" / "docs.en.jsonl.gz", 12)):
        document = {"headline": one.title, "body": one.text[:200], "row": at % 2}
        client.index(index="pages", id=f"p{at}", document=document, refresh=True)
    client.index(index="others", id="o", document={"body": "of others"}, refresh=True)


@pytest.fixture(scope="module")
def service(site: Site) -> Iterator[httpx.Client]:
    with serving(site.options) as client:
        yield client


def application(service: httpx.Client, user: str, password: str = PASSWORD) -> Elasticsearch:
    return client_of(str(service.base_url), basic_auth=(user, password))


QUERY = {"cross_lingual": {"query": "print a table", "lang": "en"}}
pytestmark = pytest.mark.data


def test_a_callers_own_rights_and_rules_of_documents_hold(service: httpx.Client) -> None:
    with application(service, "pages") as allowed, application(service, "others") as not_allowed:
        assert len(allowed.search(index="pages", query=QUERY, size=20)["hits"]["hits"]) == 12
        assert allowed.count(index="pages")["count"] == 12
        asks: tuple[Callable[[], Any], ...] = (
            lambda: allowed.count(index="others"),
            lambda: not_allowed.count(index="pages"),
            lambda: not_allowed.count(index="pages", query=QUERY),
            lambda: not_allowed.search(index="pages", query=QUERY),
        )
        for ask in asks:
            with pytest.raises(AuthorizationException):
                ask()
        assert not_allowed.count(index="others")["count"] == 1
        assert not_allowed.count(index="oth*")["count"] == not_allowed.count()["count"] == 1
        searches: list[dict[str, Any]] = [{"index": "pages"}, {"query": QUERY, "size": 20}, {"index": "others"}, {}]
        ours, theirs = allowed.msearch(searches=searches)["responses"]
        assert (len(ours["hits"]["hits"]), theirs["status"]) == (12, 403)
        ours, theirs = not_allowed.msearch(searches=searches)["responses"]
        assert (ours["status"], theirs["hits"]["total"]["value"]) == (403, 1)
    with application(service, "rows") as some:
        hits = some.search(index="pages", query=QUERY, size=20)["hits"]["hits"]
        assert [hit["_source"]["row"] for hit in hits] == [1] * 6
        assert some.count(index="pages")["count"] == some.count(index="pages", query=QUERY)["count"] == 6


@pytest.mark.parametrize("companion", [[], ["--companion"]], ids=["in place", "companion"])
def test_a_callers_own_rights_hold_in_each_index_of_a_family(site: Site, tmp_path: Path, companion: list[str]) -> None:
    """What a caller may not read is refused by its name, and means nothing to a pattern."""
    home = str(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"CA": str(site.server.ca), "USER": "admin", "PASSWORD": PASSWORD}.items():
            patch.setenv(f"DRAGOMAN_ELASTIC_{name}", value)
        place = ["--store", f"{site.server.url}/ours", "--home", home, "--field", "family", "--device", "cpu", "-q"]
        fields = ["--text", "body", "--lang", "en", "--no-calibration", *companion]
        assert run(["attach", "pages,others", "-c", "family", *place, *fields]) == 0
        try:
            with serving(replace(site.options, settings=Settings.read(home=home))) as service:

                def found(user: str, index: str) -> dict[str, set[str]]:
                    with application(service, user) as client:
                        hits = client.search(index=index, query=QUERY, size=20)["hits"]["hits"]
                    names = {hit["_index"] for hit in hits}
                    return {name: {hit["_id"] for hit in hits if hit["_index"] == name} for name in names}

                every = {f"p{at}" for at in range(12)}
                both = {"pages": every, "others": {"o"}}
                for name in ("pages,others", "family", "*", "pages,*"):
                    assert found("admin", name) == both
                assert found("admin", "pages") == found("admin", "pag*") == {"pages": every}
                if not companion:  # others' users may read no index of ours
                    assert found("pages", "*") == found("pages", "pages") == {"pages": every}
                    assert found("others", "*,others") == found("others", "oth*") == {"others": {"o"}}
                    assert found("rows", "*") == {"pages": {f"p{at}" for at in range(1, 12, 2)}}
                for user, index in (("pages", "pages,others"), ("others", "pages,others"), ("pages", "oth*")):
                    with pytest.raises(AuthorizationException):
                        found(user, index)
        finally:
            assert run(["detach", "-c", "family", "--home", home, "-q"]) == 0


def test_nobody_becomes_somebody_else(service: httpx.Client) -> None:
    with application(service, "pages", "wrong") as wrong:
        for ask in (wrong.count, wrong.search):
            with pytest.raises(AuthenticationException):
                ask(index="pages", query=QUERY)
    with application(service, "pages") as client, pytest.raises(AuthorizationException):
        client.options(headers={"es-security-runas-user": "admin"}).count(index="others")


@pytest.mark.parametrize("name", LONG_NAMES)
@pytest.mark.parametrize("length", LENGTHS)
def test_no_header_and_no_path_stops_other_callers(service: httpx.Client, name: str, length: int) -> None:
    """Elasticsearch never reads a connection again that had more than 16 KB of headers, or 4 KB of a first line."""
    assert fallen(long_header(service, "/pages/_count", name, length)) == []
    with httpx.Client(base_url=service.base_url, timeout=10, auth=("pages", PASSWORD)) as caller:
        assert fallen(served(caller, "/pages/_count", "pages", "pages")) == []


def greeted(client: Elasticsearch) -> bool:
    """Whether a client gets beyond the door by what it asks first, at whatever the cluster then says."""
    asking, accept = client.options(ignore_status=range(400, 600)), {"accept": "application/json"}
    statuses = {asking.perform_request(method, "/", headers=accept).meta.status for method in ("HEAD", "GET")}
    assert len(statuses & {401, 403}) in {0, len(statuses)}
    return not statuses & {401, 403}


def test_credentials_go_to_the_cluster_that_they_are_for_alone(site: Site) -> None:
    """Another name is another server, as far as anybody knows."""
    elsewhere = site.server.url.replace("127.0.0.1", "localhost")
    with serving(replace(site.options, elastic=elsewhere)) as service:
        with application(service, "pages") as user, pytest.raises(AuthorizationException, match="not in it"):
            user.search(index="pages", query=QUERY)
        assert service.post("/pages/_search", json={"query": QUERY}).status_code == 200


def test_with_tokens_the_cluster_vouches_for_its_own_users_alone(site: Site) -> None:
    with serving(replace(site.options, tokens=(Token.of("me", SECRET),))) as service:
        with application(service, "pages") as known, application(service, "pages", "wrong") as unknown:
            assert len(known.search(index="pages", query=QUERY)["hits"]["hits"]) == 10
            with pytest.raises(AuthenticationException):
                unknown.search(index="pages", query=QUERY)
            assert greeted(known)
            assert not greeted(unknown)
        with client_of(str(service.base_url), bearer_auth=SECRET) as client:
            assert client.count(index="pages")["count"] == 12
            assert client.search(index="pages", query=QUERY)["hits"]["hits"]
            with pytest.raises(AuthorizationException):
                client.count(index="others")
        for user in ("pages", "wrong"):
            assert service.post("/api/search", json={"query": "a"}, auth=(user, PASSWORD)).status_code == 401
            for path in ("/mcp", "/metrics", "/openapi.json"):
                assert service.post(path, auth=(user, PASSWORD)).status_code == 401


@pytest.mark.long
def test_a_cluster_that_is_gone_is_waited_for_and_back_again(
    killable: ElasticServer, tmp_path: Path, data_dir: Path, default_folder: ModelFolder
) -> None:
    asked: tuple[dict[str, Any], ...] = ({"query": QUERY}, {"query": {"match_all": {}}})
    with ExitStack() as stack:
        client = stack.enter_context(client_of(killable.url))
        stack.callback(lambda: client.indices.delete(index=["pages", "others"], ignore_unavailable=True))
        stack.callback(killable.revive)
        _fill(client, data_dir)
        _attach(killable.url, tmp_path)
        with serving(ServiceOptions(Settings.read(home=tmp_path), device="cpu")) as service:
            killable.kill()
            for body in asked:
                for auth in (httpx.Auth(), httpx.BasicAuth("pages", PASSWORD)):
                    answer = service.post("/pages/_search", json=body, auth=auth)
                    assert answer.status_code == 503, answer.text
                    assert int(answer.headers["Retry-After"]) >= 1
            killable.start()
            for body in asked:
                until(lambda: service.post("/pages/_search", json=body).status_code == 200)  # noqa: B023 - called at once


def test_the_services_own_credentials_are_in_no_answer(site: Site, service: httpx.Client) -> None:
    paths = ("/api/collections", "/openapi.json", "/metrics", "/pages/_search", "/others/_search")
    for answer in (*map(service.get, paths), service.post("/pages/_search", json={"query": {"nonsense": {}}})):
        said = answer.text + str(answer.headers)
        assert PASSWORD not in said
        assert "admin:" not in said
