"""A shard that nobody answers for is no empty one, and a server that restarts or is crowded is waited for."""

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from elasticsearch import Elasticsearch, ElasticsearchWarning

from encoders.document import Document, Encoded
from encoders.errors import StoreError
from indexer.cluster.cluster_address import Address, Credentials
from indexer.cluster.cluster_errors import SearchRefused, TemporaryFailure, is_temporary
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.readers.formats import count_distinct, fingerprint, read
from indexer.readers.records.source import ReadOptions
from indexer.stores.clustered import server_index, writing
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.scan import pages_in_order
from indexer.stores.clustered.server_index import ServerIndex
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument
from tests.conftest import until
from tests.indexer.attaching.owner import Owner, source, texts
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import ElasticServer, client_of

OPTIONS = ReadOptions(fields={"text": "content.body", "title": "headline"})


@pytest.fixture
def theirs(elastic_url: str, engine: sa.Engine) -> Iterator[Owner]:
    """An owner with forty documents in two shards."""
    made = Owner(elastic_url, engine, companion=False)
    made.make()
    made.write_all(texts(40))
    yield made
    made.close()


class Shard:
    """One of an index's two shards, that can be lost and found again."""

    def __init__(self, server: ElasticServer, client: Elasticsearch, index: str) -> None:
        self.client, self.index = client, index
        uuid = client.indices.get_settings(index=index)[index]["settings"]["index"]["uuid"]
        self.folder = server.folder / "server" / "data" / "indices" / uuid / "1"

    @property
    def active(self) -> int:
        return int(self.client.cluster.health(index=self.index)["active_primary_shards"])

    def lose(self) -> None:
        self.client.indices.close(index=self.index)
        self.folder.rename(self.folder.with_name("lost"))
        self.client.indices.open(index=self.index, wait_for_active_shards=0)
        until(lambda: self.active == 1)

    def find(self) -> None:
        self.folder.with_name("lost").rename(self.folder)
        (node,) = self.client.nodes.info()["nodes"].values()
        found = {"index": self.index, "shard": 1, "node": node["name"], "accept_data_loss": True}
        with warnings.catch_warnings(action="ignore", category=ElasticsearchWarning):  # 8.19: its answer will shrink
            self.client.cluster.reroute(commands=[{"allocate_stale_primary": found}])
        until(lambda: self.active == 2)


@pytest.mark.parametrize("companion", [False, True], ids=["in place", "companion"])
def test_documents_of_a_shard_that_is_away_are_not_taken_for_deleted(
    elastic: ElasticServer, theirs: Owner, monkeypatch: pytest.MonkeyPatch, *, companion: bool
) -> None:
    if companion:
        theirs.attachment = replace(theirs.attachment, companion=theirs.prefix)
    theirs.follow()
    monkeypatch.setattr(writing, "PATIENCE", 0.6)
    shard = Shard(elastic, theirs.client, theirs.index)
    shard.lose()
    store = theirs.open()
    with pytest.raises(StoreError, match="does not answer for all shards"):
        theirs.follow()
    with pytest.raises(TemporaryFailure, match="can't read all of"):
        store.gone(texts(40))
    for ask in (lambda: store.check("model-c"), (lambda: store.prune(0)) if companion else store.count):
        with pytest.raises(StoreError, match="is not ready"):
            ask()
    if not companion:
        with pytest.raises(SearchRefused, match="can't search now") as refused:
            list(store.scan("model-c"))
        assert is_temporary(refused.value)
    shard.find()
    assert theirs.encoded_by_following() == []
    theirs.check()


def test_an_index_is_read_whole_or_not_at_all(
    elastic: ElasticServer, theirs: Owner, engine: sa.Engine, settings: Settings
) -> None:
    place = f"elastic:{theirs.server}/{theirs.index}"
    with closing(StoreLocation(settings.store, "c").open()) as store:

        def index() -> pipeline.IndexReport:
            return pipeline.index([place], OPTIONS, FakeEncoder(), store, engine, "c", prune=True)

        assert index().encoded == 40
        Shard(elastic, theirs.client, theirs.index).lose()
        for ask in (index, lambda: list(read(place, OPTIONS)), lambda: fingerprint(place, OPTIONS)):
            with pytest.raises(StoreError, match="does not answer for all shards"):
                ask()
        with pytest.raises(StoreError, match="is not ready"):
            count_distinct(place, OPTIONS)
        assert store.count() == {"en": 40}


def test_a_closed_index_among_several_is_left_out_and_one_without_any_shard_is_not(theirs: Owner) -> None:
    place = f"elastic:{theirs.server}/{theirs.index}*"
    theirs.client.indices.create(index=f"{theirs.index}-closed")
    theirs.client.indices.close(index=f"{theirs.index}-closed")
    assert len(list(read(place, OPTIONS))) == 40
    nowhere = {"index.routing.allocation.require._name": "nobody"}
    theirs.client.indices.create(index=f"{theirs.index}-nowhere", settings=nowhere, wait_for_active_shards=0)
    for refused in (place, f"elastic:{theirs.server}/{theirs.index}-nowhere"):
        with pytest.raises(StoreError, match="does not answer for all shards"):
            list(read(refused, OPTIONS))


def test_a_put_waits_for_a_shard_that_comes_back(elastic: ElasticServer, elastic_url: str) -> None:
    encoder = FakeEncoder()

    def put(name: str) -> int:
        documents = [Document(f"{name}{at}", "en", f"text {at}") for at in range(20)]
        encoded = encoder.encode_documents(documents)
        return store.put("model-c", [StoredDocument.of(one, encoded, at) for at, one in enumerate(documents)]).stored

    address = Address.parse(f"{elastic_url}?shards=2")
    with closing(ElasticStore(address, "c", Credentials())) as store, client_of(address.server) as client:
        store.create("model-c", 8)
        put("a")
        shard = Shard(elastic, client, store.index)
        shard.lose()
        back = threading.Timer(1.0, shard.find)
        back.start()
        assert put("b") == 20
        back.join()
        assert store.count() == {"en": 40}


class Interrupting(FakeEncoder):
    """Kills the server in the middle of its work, once, and has it started again: one of two threads that encode."""

    def __init__(self, server: ElasticServer) -> None:
        super().__init__()
        self.server = server
        self.again: threading.Thread | None = None
        self.lock = threading.Lock()

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        with self.lock:
            if self.again is None and len(self.encoded) > 100:
                self.server.kill()
                self.again = threading.Thread(target=self.server.start)
                self.again.start()
        return super().encode_documents(documents)


@pytest.mark.parametrize(
    "companion", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in place", "companion"]
)
def test_following_waits_for_a_server_that_restarts(
    engine: sa.Engine, killable: ElasticServer, killable_url: str, *, companion: bool
) -> None:
    theirs = Owner(killable_url, engine, companion=companion)
    theirs.make()
    theirs.write_all({f"d{at}": source(f"text {at}", ("en", "de")[at % 2]) for at in range(700)})
    theirs.encoder = Interrupting(killable)
    report = theirs.follow()
    assert theirs.encoder.again is not None
    theirs.encoder.again.join()
    assert (report.encoded, report.behind) == (700, False)
    theirs.check()
    theirs.close()


FULL = {"error": {"type": "es_rejected_execution_exception", "reason": "rejected execution"}, "status": 429}
BROKEN = {"error": {"type": "parsing_exception", "reason": "unknown query"}, "status": 400}


class Crowded:
    """A client of a server that refuses the last search of a request, as often as it is told; ``sent`` are bodies."""

    def __init__(self, *refusals: dict[str, Any]) -> None:
        self.refusals, self.sent = list(refusals), list[list[Any]]()

    def msearch(self, *, searches: Sequence[Any]) -> dict[str, Any]:
        bodies = list(searches[1::2])
        self.sent.append([body["number"] for body in bodies if "number" in body])
        answers = [{"hits": {"hits": [{"_id": str(body.get("number")), "sort": ["z"]}]}} for body in bodies]
        if bodies[-1].get("search_after"):
            answers[-1] = {"hits": {"hits": []}}
        return {"responses": [*answers[:-1], self.refusals.pop(0) if self.refusals else answers[-1]]}

    def index(self) -> ServerIndex:
        client: Any = self
        return ServerIndex(client, "http://there", "pages", "id", remedy="", stale=False)


def test_a_search_that_a_full_queue_refused_is_sent_again_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_index, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(writing, "_BACKOFF", (0.0, 0.0))
    searches = [{"number": number, "size": 1} for number in range(3)]
    crowded = Crowded(FULL, FULL)
    assert [hit["_id"] for (hit,) in crowded.index().search(searches)] == ["0", "1", "2"]
    assert crowded.sent == [[0, 1, 2], [2], [2]]
    with pytest.raises(SearchRefused, match=r"can't search now .*try again") as refused:  # and no empty answer
        Crowded(FULL, FULL, FULL).index().search(searches)
    assert refused.value.status == 429
    broken = Crowded(BROKEN)
    with pytest.raises(SearchRefused, match="refused a search"):
        broken.index().search(searches)
    assert len(broken.sent) == 1
    assert len(list(pages_in_order(Crowded(*[FULL] * 9).index(), Layout(), [], {}, 10))) == 1  # a reader waits
