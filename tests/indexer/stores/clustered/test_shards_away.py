"""A shard that nobody answers for is no empty one, and a server that restarts is waited for: on a real server."""

import threading
import warnings
from collections.abc import Iterator, Sequence

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
from indexer.stores.clustered import writing
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument
from tests.conftest import until
from tests.indexer.attaching.owner import Owner, source, texts
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import ElasticServer, client_of

OPTIONS = ReadOptions(fields={"text": "content.body", "title": "headline"})


@pytest.fixture(params=["in place", "companion"])
def owner(request: pytest.FixtureRequest, elastic_url: str, engine: sa.Engine) -> Iterator[Owner]:
    """An owner with forty documents in two shards, followed."""
    made = Owner(elastic_url, engine, companion=request.param == "companion")
    made.make()
    made.write_all(texts(40))
    made.follow()
    yield made
    made.client.close()


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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 0.6)


@pytest.mark.usefixtures("impatient")
def test_documents_of_a_shard_that_is_away_are_not_taken_for_deleted(elastic: ElasticServer, owner: Owner) -> None:
    shard = Shard(elastic, owner.client, owner.index)
    shard.lose()
    store = owner.open()
    with pytest.raises(StoreError, match="does not answer for all shards"):
        owner.follow()
    with pytest.raises(TemporaryFailure, match="can't read all of"):
        store.gone(texts(40))
    with pytest.raises(StoreError, match="is not ready"):
        store.check("model-c")
    if owner.attachment.companion:
        with pytest.raises(StoreError, match="is not ready"):
            store.prune(0)
    else:
        with pytest.raises(SearchRefused, match="can't search now") as refused:
            list(store.scan("model-c"))
        assert is_temporary(refused.value)
        with pytest.raises(StoreError, match="is not ready"):
            store.count()
    store.close()
    shard.find()
    assert owner.encoded_by_following() == []
    owner.check()


def test_an_index_is_read_whole_or_not_at_all(
    elastic: ElasticServer, elastic_url: str, engine: sa.Engine, settings: Settings
) -> None:
    theirs = Owner(elastic_url, engine, companion=False)
    theirs.make()
    theirs.write_all(texts(40))
    place = f"elastic:{theirs.server}/{theirs.index}"

    def index() -> pipeline.IndexReport:
        store = StoreLocation(settings.store, "c").open()
        try:
            return pipeline.index([place], OPTIONS, FakeEncoder(), store, engine, "c", prune=True)
        finally:
            store.close()

    assert index().encoded == 40
    Shard(elastic, theirs.client, theirs.index).lose()
    for ask in (index, lambda: list(read(place, OPTIONS)), lambda: fingerprint(place, OPTIONS)):
        with pytest.raises(StoreError, match="does not answer for all shards"):
            ask()
    with pytest.raises(StoreError, match="is not ready"):
        count_distinct(place, OPTIONS)
    store = StoreLocation(settings.store, "c").open()
    assert store.count() == {"en": 40}
    store.close()
    theirs.client.close()


def test_an_index_without_any_shard_is_there(elastic_url: str, engine: sa.Engine) -> None:
    theirs = Owner(elastic_url, engine, companion=False)
    nowhere = {"index.routing.allocation.require._name": "nobody"}
    theirs.client.indices.create(index=theirs.index, settings=nowhere, wait_for_active_shards=0)
    with pytest.raises(StoreError, match="does not answer for all shards"):
        list(read(f"elastic:{theirs.server}/{theirs.index}", OPTIONS))
    theirs.client.close()


def test_a_closed_index_among_several_is_left_out(elastic_url: str, engine: sa.Engine) -> None:
    theirs = Owner(elastic_url, engine, companion=False)
    theirs.make()
    theirs.write_all(texts(3))
    theirs.client.indices.create(index=f"{theirs.index}-closed")
    theirs.client.indices.close(index=f"{theirs.index}-closed")
    assert len(list(read(f"elastic:{theirs.server}/{theirs.index}*", OPTIONS))) == 3
    theirs.client.close()


def test_a_put_waits_for_a_shard_that_comes_back(elastic: ElasticServer, elastic_url: str) -> None:
    store = ElasticStore(Address.parse(f"{elastic_url}?shards=2"), "c", Credentials())
    store.create("model-c", 8)
    encoder = FakeEncoder()

    def put(some: Sequence[str]) -> int:
        documents = [Document(doc_id, "en", f"text of {doc_id}") for doc_id in some]
        encoded = encoder.encode_documents(documents)
        return store.put("model-c", [StoredDocument.of(one, encoded, at) for at, one in enumerate(documents)]).stored

    put([f"a{at}" for at in range(20)])
    with client_of(store.address.server) as client:
        shard = Shard(elastic, client, store.index)
        shard.lose()
        back = threading.Timer(1.5, shard.find)
        back.start()
        assert put([f"b{at}" for at in range(20)]) == 20
        back.join()
    assert store.count() == {"en": 40}
    store.close()


class Interrupting(FakeEncoder):
    """Kills the server in the middle of its work, once, and has it started again by somebody else.

    Two threads encode: while one kills the server, the other waits.
    """

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
    theirs.client.close()
