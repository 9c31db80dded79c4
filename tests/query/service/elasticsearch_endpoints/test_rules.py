"""A cluster's rules of documents and fields hold for callers with credentials of their own: on a real server."""

from collections.abc import Iterator

import httpx
import pytest

from encoders.folder.model_folder import ModelFolder
from tests.conftest import fallen
from trials import rights_attacks
from trials.rights_attacks import BESIDE, BLIND, INDEX, SEARCHERS
from trials.servers.elastic import ElasticServer
from trials.servers.secured import admin
from trials.servers.service import serving


@pytest.fixture(scope="module")
def service(
    secured: ElasticServer, tmp_path_factory: pytest.TempPathFactory, default_folder: ModelFolder
) -> Iterator[httpx.Client]:
    with serving(rights_attacks.made(secured, tmp_path_factory.mktemp("rules"))) as client:
        yield client
    with admin(secured) as client_of_all:
        client_of_all.indices.delete(index=[INDEX, f"ours-{BESIDE}-000001"])


@pytest.fixture(scope="module")
def server(secured: ElasticServer) -> Iterator[httpx.Client]:
    with rights_attacks.client_with_ca(secured) as client:
        yield client


@pytest.mark.parametrize("user", [*SEARCHERS, *BLIND])
def test_a_call_that_is_passed_on_gets_what_the_server_gives_the_caller(
    service: httpx.Client, server: httpx.Client, user: str
) -> None:
    assert fallen(rights_attacks.same_as_the_server(service, server, user)) == []


@pytest.mark.parametrize("user", SEARCHERS)
def test_a_search_across_languages_shows_and_counts_nothing_that_is_hidden(
    service: httpx.Client, server: httpx.Client, user: str
) -> None:
    assert fallen(rights_attacks.hidden_from_searches(service, server, user)) == []


def test_documents_that_are_hidden_in_the_owners_index_are_hidden_where_vectors_lie_beside_it(
    service: httpx.Client, server: httpx.Client
) -> None:
    assert fallen(rights_attacks.hidden_from_searches(service, server, "rows_beside", BESIDE)) == []


@pytest.mark.parametrize(("user", "name"), [*((user, INDEX) for user in BLIND), ("only_beside", BESIDE)])
def test_who_may_not_see_the_vectors_is_told_and_gets_no_empty_answer(
    service: httpx.Client, user: str, name: str
) -> None:
    assert fallen(rights_attacks.refused_searches(service, user, name)) == []


def test_without_credentials_nobody_runs_a_script(service: httpx.Client) -> None:
    assert fallen(rights_attacks.refused_scripts(service)) == []
