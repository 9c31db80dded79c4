"""A collection that is attached by an alias, which its owner moves to another index."""

from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from encoders.errors import StoreError
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from query.ranking.searcher_opening import EmptyCollection
from query.service import collection_watch, open_collections
from query.service.open_collections import OpenCollections
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from tests.conftest import until
from trials.servers.elastic import client_of
from trials.servers.service import serving


@pytest.mark.parametrize("companion", [[], ["--companion"]])
def test_a_service_answers_from_the_index_that_the_alias_stands_for_or_not_at_all(
    companion: list[str], elastic_url: str, small: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_collections, "_COUNT_SECONDS", 0.0)
    place = urlsplit(elastic_url)
    server, prefix = f"{place.scheme}://{place.netloc}", place.path.strip("/")
    alias, home = f"{prefix}-news", ["-c", "news", "--home", str(tmp_path / "home")]
    fields = ["--text", "body", "--lang-field", "lang", "--store", elastic_url, "--encoder", str(small.path)]
    attach = ["attach", alias, *fields, *companion, "--device", "cpu", "-q", *home]
    with client_of(server) as client:
        for number in (1, 2):
            document = {"body": f"text {number} about rivers", "lang": "en"}
            client.index(index=f"{alias}-{number}", id=f"d{number}", document=document, refresh=True)

        def move(*actions: dict[str, Any]) -> None:
            client.indices.update_aliases(
                actions=[{kind: {"alias": alias, **place}} for one in actions for kind, place in one.items()]
            )

        move({"add": {"index": f"{alias}-1"}})
        assert run(attach) == 0
        options = ServiceOptions(Settings.read(home=tmp_path / "home"), device="cpu")
        with closing(OpenCollections(options, Metrics())) as served:

            def found() -> list[str]:
                with served.searcher("news") as searcher:
                    return [hit.doc_id for hit in searcher.search("rivers", lang="en")]

            assert found() == ["d1"]
            move({"remove": {"index": f"{alias}-1"}}, {"add": {"index": f"{alias}-2"}})
            with pytest.raises(StoreError, match=f"{alias} on .* is another index than {alias}-1 by now"):
                found()
            with suppress(EmptyCollection, StoreError):
                assert found() == []  # a companion still has the vectors, and no document to show
            assert run(attach) == 0
            assert found() == ["d2"]


def test_a_service_that_began_without_a_cluster_answers_for_an_index_that_is_attached_later(
    elastic_url: str, small: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_watch, "_EVERY", 0.1)
    place = urlsplit(elastic_url)
    index, home = f"{place.path.strip('/')}-late", tmp_path / "home"
    with serving(ServiceOptions(Settings.read(home=home), device="cpu")) as service:
        with client_of(f"{place.scheme}://{place.netloc}") as client:
            client.index(index=index, id="d", document={"body": "a text about rivers", "lang": "en"}, refresh=True)
        fields = ["--text", "body", "--lang-field", "lang", "--store", elastic_url, "--encoder", str(small.path)]
        assert run(["attach", index, *fields, "--device", "cpu", "-q", "-c", "late", "--home", str(home)]) == 0
        until(lambda: service.get("/api/ready").json()["collections"] == {"late": "ready"})
        for query in ({"match": {"body": "rivers"}}, {"cross_lingual": {"query": "rivers", "lang": "en"}}):
            answer = service.post(f"/{index}/_search", json={"query": query})
            assert [hit["_id"] for hit in answer.json()["hits"]["hits"]] == ["d"], answer.text
