"""What an Elasticsearch store is told at the door, and what it makes of trouble: each of it one sentence."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar, cast
from unittest.mock import create_autospec

import numpy as np
import pytest
from elasticsearch import Elasticsearch

from encoders.document import Document, Passages, unit_rows
from encoders.errors import BadInput, StoreError
from indexer.cluster import cluster_client, cluster_errors
from indexer.cluster.cluster_address import INDEX_TYPES, Address, Credentials, without_credentials
from indexer.cluster.cluster_client import Abilities
from indexer.collection.collection import register, remove
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import open_database
from indexer.readers.formats import read
from indexer.readers.records.source import ReadOptions
from indexer.stores.clustered import document_cache, mapped_fields, writing
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.server_index import ServerIndex
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import MissingDocuments, StoredDocument, VectorQuery
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import VERSION, ElasticServer, client_of

Patch = pytest.MonkeyPatch
MODEL, DIM = "model-a", 8


def item(doc_id: str, text: str = "text", passages: int = 1, lang: str = "en") -> StoredDocument:
    vector = unit_rows(np.random.default_rng(len(text)).standard_normal((1, DIM)).astype(np.float32))[0]
    offsets = np.zeros((passages, 2), np.int32)
    return StoredDocument(Document(doc_id, lang, text), vector, Passages(np.ones((passages, DIM), np.int8), offsets))


@pytest.fixture
def store(elastic_url: str) -> Iterator[ElasticStore]:
    made = ElasticStore(Address.parse(elastic_url), "c", Credentials())
    made.create(MODEL, DIM)
    yield made
    made.close()


@pytest.fixture
def client(elastic_url: str) -> Iterator[Elasticsearch]:
    with client_of(elastic_url.rpartition("/")[0]) as asked:
        yield asked


@pytest.fixture
def prefix(elastic_url: str) -> str:
    return elastic_url.rpartition("/")[2]


def nearest(store: ElasticStore, doc_id: str = "a") -> Sequence[str]:
    """Ids of the five that are nearest to a document."""
    return store.search(VectorQuery(MODEL, {"en": item(doc_id).vector[None]}, 5))["en"][0].doc_ids


class Answer(BaseHTTPRequestHandler):
    """A server that searches nothing: the real ones that answer so can't be had here."""

    product = "Elasticsearch"
    refused: tuple[str, ...] = ()
    """Parts of a request that the server can't read."""
    shown: ClassVar[list[str | None]] = []
    """Credentials of each request."""
    formats: ClassVar[set[str | None]] = set()
    """Media types that were sent and that were asked for."""
    status, media = 200, "application/json"

    def do_POST(self) -> None:
        self.shown.append(self.headers["Authorization"])
        self.formats.update((self.headers["Content-Type"], self.headers["Accept"]))
        request = self.path + self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(400 if any(part in request for part in self.refused) else self.status)
        if self.product:
            self.send_header("X-Elastic-Product", self.product)
        self.send_header("Content-Type", self.media)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def stranger(request: pytest.FixtureRequest) -> Iterator[str]:
    product, *refused = request.param
    handler = type("Handler", (Answer,), {"product": product, "refused": tuple(refused)})
    with HTTPServer(("127.0.0.1", 0), handler) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.server_port}/p"
        server.shutdown()


@pytest.mark.parametrize(
    "stranger", [[""], ["", "knn"], ["Elasticsearch", "rescore_vector"], ["Elasticsearch", "knn"]], indirect=True
)
def test_what_is_too_old_or_not_elasticsearch_is_refused(stranger: str) -> None:
    """Another product twice, and Elasticsearch 8.17 and 7.17: real ones refuse these parts."""
    with pytest.raises(StoreError, match=r"is too old; Dragoman needs Elasticsearch 8\.18 or later"):
        StoreLocation(stranger, "c").open()


@pytest.mark.parametrize(
    ("stranger", "expected"),
    [
        (["Elasticsearch"], Abilities()),
        (["Elasticsearch", "P4AAAA=="], Abilities(packed_vectors=False)),
        (["Elasticsearch", "P4AAAA==", "_source_exclude_vectors"], Abilities(False, False)),
    ],
    indirect=["stranger"],
    ids=["9.3", "9.2", "8.18"],
)
def test_a_server_is_asked_for_its_abilities(stranger: str, expected: Abilities) -> None:
    server = stranger.rpartition("/")[0]
    with cluster_client.connect(server, Credentials()) as client:
        assert cluster_client.abilities(client, server) == expected


def test_the_tests_server_has_the_abilities_of_its_version(elastic: ElasticServer, client: Elasticsearch) -> None:
    version = tuple(map(int, VERSION.split(".")))
    assert cluster_client.abilities(client, elastic.url) == Abilities(version >= (9, 3), version >= (9, 2))


@pytest.mark.parametrize("stranger", [["Elasticsearch"]], indirect=True)
def test_requests_name_no_version_and_wrong_addresses_are_said(stranger: str, monkeypatch: Patch) -> None:
    """A server of an older version refuses a media type that names a newer one."""
    Answer.formats.clear()
    with cluster_client.connect(stranger.rpartition("/")[0], Credentials()) as client:
        client.search(index="i", query={"match_all": {}})
        assert Answer.formats == {"application/json"}
        Answer.formats.clear()
        client.msearch(searches=[{"index": "i"}, {"query": {"match_all": {}}}])
        assert Answer.formats == {"application/x-ndjson", "application/json"}
        monkeypatch.setattr(Answer, "media", "text/html")  # a page of a proxy
        html = "answer is text/html"
        for status, said in (200, html), (302, "sends on to another URL"), (404, html), (413, r"that long \(\{\}\)"):
            monkeypatch.setattr(Answer, "status", status)
            with pytest.raises(StoreError, match=said), cluster_client.store_errors(stranger):
                client.search(index="i")
    monkeypatch.undo()
    monkeypatch.setattr(Answer, "status", 404)
    with pytest.raises(StoreError, match=r"has no Elasticsearch \(it answers 404 to a search\); check the address"):
        StoreLocation(stranger, "c").open()


@pytest.mark.parametrize("kind", INDEX_TYPES)
def test_vectors_come_back_bit_for_bit_and_cosines_are_exact(elastic_url: str, kind: str) -> None:
    chance = np.random.default_rng(5)
    rows = unit_rows(chance.standard_normal((300, 64)).astype(np.float32))
    queries = np.concatenate((rows[:1], chance.standard_normal((4, 64)).astype(np.float32)))
    with closing(ElasticStore(Address.parse(f"{elastic_url}?vectors={kind}"), "c", Credentials())) as store:
        store.create(MODEL, 64)
        ids = [str(number) for number in range(len(rows))]
        store.put(MODEL, [replace(item(doc_id), vector=row) for doc_id, row in zip(ids, rows, strict=True)])
        store.publish()
        assert np.array_equal(store.vectors(MODEL, ids), rows)
        for query, near in zip(queries, store.search(VectorQuery(MODEL, {"en": queries}, 20))["en"], strict=True):
            assert len(near.doc_ids) == 20
            exact = rows[[int(doc_id) for doc_id in near.doc_ids]] @ query
            np.testing.assert_allclose(near.scores / np.linalg.norm(query), exact / np.linalg.norm(query), atol=2e-6)


def test_a_server_that_can_not_be_reached_as_it_is_named_is_said_at_once(elastic_url: str) -> None:
    for url, ca, said in (
        ("http://127.0.0.1:9/p", "", r"http://127\.0\.0\.1:9 can't be reached"),
        (elastic_url.replace("http:", "https:"), "", "http and https are not mixed up"),
        ("https://127.0.0.1:9/p", "/nowhere.crt", r"the CA file /nowhere\.crt can't be read \(No such file"),
        ("https://127.0.0.1:9/p", __file__, r"the CA file .* can't be read \(.*NO_CERTIFICATE.*; name the certificate"),
        ("https://127.0.0.1/p", "", "names no port; write it behind the host's name, perhaps :443"),
    ):
        with pytest.raises((BadInput, StoreError), match=said):
            StoreLocation(url, "c", Credentials(ca=ca)).open()


def test_a_number_that_json_can_not_carry_is_not_said_to_be_a_server_that_is_away() -> None:
    with (
        cluster_client.connect("http://127.0.0.1:9", Credentials()) as client,
        pytest.raises(StoreError, match=r"as JSON, .* \(Integer exceeds 64-bit range\); see") as raised,
        cluster_client.store_errors("http://127.0.0.1:9"),
    ):
        client.index(index="c", document={"number": 2**64})
    assert not cluster_errors.is_temporary(raised.value)


def test_what_another_put_has_vectors_at_once(store: ElasticStore, elastic_url: str, client: Elasticsearch) -> None:
    store.publish()
    client.indices.put_settings(index=store.index, settings={"refresh_interval": "1h"})
    with closing(ElasticStore(Address.parse(elastic_url), "c", Credentials())) as reader:
        for doc_id, asked in (("a", reader.vectors), ("b", reader.passages)):
            store.put(MODEL, [item(doc_id)])
            assert (set(reader.stamps(MODEL, [doc_id])), len(asked(MODEL, [doc_id]))) == ({doc_id}, 1)
        with pytest.raises(KeyError):
            reader.vectors(MODEL, ["a", "gone"])


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("host:9200/a/b", "is no store"),
        *((f"host:9200/{prefix}", "in small letters") for prefix in ("News", "x*", "-p")),
        ("host:9200/p?shard=2", "has no option 'shard'"),
        *((f"host:9200/p?shards={two}", f"shards={two} in the store's URL is no number") for two in ("two", "²")),
        *((f"host:9200/p?{option}", "is no number") for option in ("replicas=٣", f"shards={'9' * 5000}")),
        ("host:9200/p?vectors=ivf", "there is no vector index 'ivf'"),
        ("host:9200/p?field=a.b", "can't be named 'a.b'"),
        *((f"host:{port}/p", "the port in the server's URL is no number") for port in ("port", "99999")),
        ("[host/p", "can't be read"),
    ],
)
def test_a_url_that_is_none_is_refused(rest: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Address.parse(f"https://{rest}")


@pytest.mark.parametrize("rest", ["sec/ret@host:9200/p", "1/secret@host:9200/p", "sec#ret@host/p", "sec?ret@host/p"])
def test_a_password_that_breaks_its_url_is_kept_and_shown_nowhere(tmp_path: Path, rest: str) -> None:
    url = f"https://ann:{rest}"
    calls: list[Callable[[], object]] = [
        lambda: Settings.read(home=tmp_path, store=url),
        lambda: Address.parse(url),
        lambda: StoreLocation(url, "c").open(),
        lambda: list(read(f"elastic:{url}", ReadOptions())),
    ]
    for call in calls:
        with pytest.raises(BadInput, match=r"of a password as %2F, %3F, %23 and %40") as refused:
            call()
        assert "sec" not in str(refused.value)
        assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_credentials_are_taken_from_the_url_and_shown_nowhere(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("DRAGOMAN_ELASTIC_CA", "/ca.crt")
    settings = Settings.read(home=tmp_path, store="https://ann:s%40cret@host:9200/news?shards=2")
    assert settings.store == "https://host:9200/news?shards=2"
    assert settings.credentials == Credentials("ann", "s@cret", "", "/ca.crt")
    assert all(secret not in repr(settings) for secret in ("s@cret", "s%40cret"))
    assert without_credentials("https://host:9200/p") == "https://host:9200/p"
    monkeypatch.setenv("DRAGOMAN_ELASTIC_API_KEY", "a2V5")
    assert Settings.read(home=tmp_path, store="https://host:9200/").credentials.api_key == "a2V5"
    assert Settings.read(home=tmp_path, store="https://ann:s%40cret@host:9200/").credentials == settings.credentials
    assert Address.parse("https://host:9200").prefix == "dragoman"
    assert Settings.read(home=tmp_path, store="here").store == str(Path.cwd() / "here")
    assert Settings.read(home=tmp_path, store=f"file://{tmp_path}/me@home").store.endswith("me@home")
    for name, value in (("USER", "ann"), ("PASSWORD", "größer als \r\n"), ("API_KEY", " a2V5\n")):
        monkeypatch.setenv(f"DRAGOMAN_ELASTIC_{name}", value)  # a line break at the end is no part of it
    assert Credentials.read("https://host:9200/p") == Credentials("ann", "größer als ", "a2V5", "/ca.crt")


@pytest.mark.parametrize("stranger", [[""]], indirect=True)
def test_an_api_key_goes_with_each_request(stranger: str) -> None:
    """The tests' server makes no API keys, so a stranger is asked."""
    for credentials, shown in ((Credentials(api_key="a2V5"), "ApiKey a2V5"), (Credentials("a", "ü"), "Basic YTrDvA==")):
        Answer.shown.clear()
        with pytest.raises(StoreError, match="is not Elasticsearch"):
            StoreLocation(stranger, "c", credentials).open()
        assert set(Answer.shown) == {shown}


SECRET = "c2VjcmV0a2V5"  # noqa: S105 - of nobody
UNSENDABLE = [("API_KEY", f"{SECRET} {SECRET}"), ("API_KEY", f"ключ{SECRET}"), ("USER", f"{SECRET}\x07")]
UNSENDABLE += [(variable, f"{SECRET}\n{SECRET}") for variable in ("API_KEY", "PASSWORD")]


@pytest.mark.parametrize(("variable", "value"), UNSENDABLE)
def test_credentials_for_no_header_are_refused_unshown(monkeypatch: Patch, variable: str, value: str) -> None:
    monkeypatch.setenv(f"DRAGOMAN_ELASTIC_{variable}", value)
    with pytest.raises(BadInput) as refused:
        StoreLocation("http://127.0.0.1:9/p", "c").open()
    assert (SECRET in str(refused.value), refused.value.__context__) == (False, None)


def test_a_mapping_holds_the_stated_type_of_index(elastic_url: str, client: Elasticsearch) -> None:
    address = Address.parse(f"{elastic_url}?vectors=hnsw&field=ours&shards=2")
    with closing(ElasticStore(address, "c", Credentials())) as store:
        store.create(MODEL, DIM)
        store.put(MODEL, [item("a")])
        store.publish()
        described = client.indices.get(index=store.alias)[store.index]
        vector = described["mappings"]["properties"]["ours"]["properties"]["models"]["properties"][MODEL]["properties"]
        assert vector["vector"]["index_options"] == {"type": "hnsw", "m": 32, "ef_construction": 200}
        assert (described["settings"]["index"]["number_of_shards"], list(nearest(store))) == ("2", ["a"])


def test_a_language_has_a_field_and_a_graph_once_it_is_large(
    store: ElasticStore, elastic_url: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(mapped_fields, "MOST_FLAT", 3)
    langs = {"en": 3, "de": 5, "und": 2, "ceb": 2}
    items = {lang: [item(f"{lang}{number}", lang=lang) for number in range(count)] for lang, count in langs.items()}
    asking = dict.fromkeys(langs, items["de"][0].vector[None])

    def all_found(opened: ElasticStore) -> bool:
        hits = opened.search(VectorQuery(MODEL, asking, 5))
        return {lang: len(hits[lang][0].doc_ids) for lang in langs} == langs

    with closing(ElasticStore(Address.parse(elastic_url), "c", Credentials())) as reader:
        assert [len(hits.doc_ids) for hits in reader.search(VectorQuery(MODEL, asking, 5))["de"]] == [0]
        store.put(MODEL, [one for of_language in items.values() for one in of_language])
        store.publish()
        assert all_found(store)
        assert all_found(reader)  # it opened the store before there were languages
        fields = reader._mapped.of(MODEL, langs)
        kinds = {lang: field.kind for lang, field in fields.of_languages.items()}
        assert (kinds, fields.shared.kind) == ({"de": "int8_hnsw", "en": "int8_flat"}, "int8_hnsw")
        store.put(MODEL, [item("de0")])
        langs |= {"en": 4, "de": 4}
        assert all_found(store)
        assert store.vectors(MODEL, ["ceb1", "de0"]).tobytes() == np.stack([items["ceb"][1].vector] * 2).tobytes()
        passages, texts = store.passages_and_texts(MODEL, ["ceb1", "de0"], {"de0"})
        assert ([len(one.vectors) for one in passages], list(texts.values())) == ([1, 1], store.get(["de0"]))


def test_what_a_search_found_is_read_again_once_somebody_wrote_it(
    store: ElasticStore, client: Elasticsearch, elastic_url: str, monkeypatch: Patch
) -> None:
    requests = create_autospec(ServerIndex.search, side_effect=ServerIndex.search)
    monkeypatch.setattr(ServerIndex, "search", requests)
    monkeypatch.setattr(document_cache, "_SAME_SECONDS", 0.0)

    def found(of: ElasticStore = store, only: str = "") -> tuple[int, dict[str, tuple[str, bytes]]]:
        """The number of requests, and texts and vectors by id; a caller may change what it gets."""
        requests.reset_mock()
        hits = of.search(VectorQuery(MODEL, {"en": item("a").vector[None]}, 5, with_vectors=True))["en"][0]
        passages, texts = of.passages_and_texts(MODEL, only or hits.doc_ids, set(only or hits.doc_ids))
        assert [len(one.vectors) for one in passages] == [1] * len(only or hits.doc_ids)
        for text in texts.values():
            assert not text.fields
            cast("dict[str, bool]", text.fields)["changed"] = True
        assert hits.vectors is not None
        by_id = dict(zip(hits.doc_ids, map(np.ndarray.tobytes, hits.vectors), strict=True))
        return requests.call_count, {doc_id: (texts[doc_id].text, by_id[doc_id]) for doc_id in texts}

    def expected(*items: StoredDocument) -> dict[str, tuple[str, bytes]]:
        return {one.document.doc_id: (one.document.text, one.vector.tobytes()) for one in items}

    store.put(MODEL, items := [item("a"), item("b", "pond"), item("c", "a lake")])
    assert [found() for _ in range(3)] == [(2, expected(*items)), (1, expected(*items)), (1, expected(*items))]
    assert found(store.narrowed((), "ApiKey a")) == (2, expected(*items))
    with closing(ElasticStore(Address.parse(elastic_url), "c", Credentials())) as reader:
        assert [found(reader, only)[0] for only in "abc"] == [2, 2, 1]  # "c" is read ahead, for "b" is new
    items[1] = item("b", "lake")  # of the same vector
    assert (store.put(MODEL, items[1:2]).stored, found()) == (1, (3, expected(*items)))
    assert (store.delete(["c"]), found()) == (1, (1, expected(*items[:2])))
    client.indices.delete(index=store.index)
    with closing(ElasticStore(Address.parse(elastic_url), "c", Credentials())) as again:
        again.create(MODEL, DIM)
        again.put(MODEL, others := [item("a", "news"), item("b", "sea")])  # written first, too; "a" has the same vector
        again.publish()
        assert found()[1] == expected(*others)


def test_documents_are_read_as_searches_find_them(store: ElasticStore, client: Elasticsearch, elastic_url: str) -> None:
    """Else searches would fail from the first deletion of a long prune until its end."""
    store.put(MODEL, [item("a"), item("b", "before"), item("c")])
    store.publish()
    client.indices.put_settings(index=store.index, settings={"refresh_interval": "-1"})
    with closing(ElasticStore(Address.parse(elastic_url), "c", Credentials(), make=False)) as reader:
        assert set(nearest(reader)) == {"a", "b", "c"}  # the first search of a process refreshes
        assert (store.delete(["c"]), set(nearest(reader))) == (1, {"a", "b"})
        store._index.delete(["a"])
        store.put(MODEL, [item("b", "after")])
        assert [document.text for document in reader.get(sorted(nearest(reader)))] == ["text", "before"]
        assert reader.originals(["a", "b"])["b"]["text"] == "before"
        store.publish()
        assert (nearest(reader), [document.text for document in reader.get(["b"])]) == (["b"], ["after"])
        with pytest.raises(MissingDocuments):
            reader.get(["a"])


def test_an_index_that_vanished_is_said(store: ElasticStore, client: Elasticsearch, elastic_url: str) -> None:
    store.put(MODEL, [item("a")])
    client.indices.delete(index=store.index)
    opened, put = partial(StoreLocation(elastic_url, "c").open, make=False), partial(store.put, MODEL, [item("a")])
    for act in (store.count, partial(nearest, store), put, opened):
        with pytest.raises(StoreError, match="is gone from http"):
            act()
    assert not client.indices.exists(index=store.index), "a write made an index with a mapping of the server's own"


def test_a_full_disk_is_waited_for_then_said(store: ElasticStore, client: Elasticsearch, monkeypatch: Patch) -> None:
    def block(name: str, value: bool | None) -> None:
        client.indices.put_settings(index=store.index, settings={f"index.blocks.{name}": value})

    block("read_only_allow_delete", True)
    with monkeypatch.context() as patch:
        patch.setattr(writing, "PATIENCE", 0.5)
        with pytest.raises(StoreError, match=r"^http://.* a disk of its nodes is too full.*free disk") as full:
            store.put(MODEL, [item("a"), item("b")])
        with pytest.raises(StoreError, match=r"a disk of its nodes is too full"):
            store.delete(["a"])
    assert cluster_errors.is_temporary(full.value)
    waited = threading.Event()

    def wait(*_: object) -> None:
        waited.set()
        time.sleep(0.05)

    monkeypatch.setattr(writing._Backoff, "wait", wait)
    with ThreadPoolExecutor(1) as pool:
        stored = pool.submit(store.put, MODEL, [item("c")])
        assert waited.wait(60)
        block("read_only_allow_delete", None)
        assert stored.result(60).stored == 1
    assert store.delete(["c"]) == 1
    block("read_only_allow_delete", None)
    assert (store.count(), store.put(MODEL, [item("a"), item("b")]).stored) == ({}, 2)
    block("write", True)  # its owner's, which nobody waits for
    with pytest.raises(StoreError, match=r"blocks the index .*lift the block"):
        store.put(MODEL, [item("a")])


def test_a_red_index_is_said(elastic_url: str, prefix: str, client: Elasticsearch, monkeypatch: Patch) -> None:
    monkeypatch.setattr("indexer.stores.clustered.own_index._YELLOW_WITHIN", "100ms")
    monkeypatch.setattr("indexer.stores.clustered.own_index._SHARDS_WITHIN", "500ms")
    nowhere = {"index.routing.allocation.require._name": "nobody", "index.write.wait_for_active_shards": "0"}
    mapping = Layout().mapping()
    client.indices.create(index=f"{prefix}-c-000001", mappings=mapping, settings=nowhere, wait_for_active_shards=0)
    with pytest.raises(StoreError, match=r"have no node that holds them \(red: node does not match"):
        StoreLocation(elastic_url, "c").open()
    assert client.indices.exists(index=f"{prefix}-c-000001")
    with templated(client, prefix, {"settings": nowhere}), pytest.raises(StoreError, match=r"\(red: "):
        StoreLocation(elastic_url, "other").open()
    assert not client.indices.exists(index=f"{prefix}-other-000001"), "an index that can hold nothing stays"


def test_what_the_server_takes_not_is_refused_alone(store: ElasticStore, client: Elasticsearch) -> None:
    deep: dict[str, object] = {"end": 1}
    for _ in range(40):
        deep = {"in": deep}
    nested = replace(item("deep"), document=Document("deep", "en", "text", fields=deep))
    report = store.put(MODEL, [item("a"), nested, item("x" * 600), item("broken", text="\ud800")])
    assert "Elasticsearch takes 512" in report.refused["x" * 600]
    assert "not Unicode" in report.refused["broken"]
    assert (report.stored, "deep" in report.refused, list(store.ids())) == (1, True, ["a"])
    client.index(index=store.index, id="a", document={"title": "", "text": "an operator's"}, refresh=True)
    assert (store.stamps(MODEL, ["a"]), store.put(MODEL, [item("a")]).stored, list(store.ids())) == ({}, 1, ["a"])
    store.put(MODEL, [item("long", text="word " * 400_000, passages=15_000)])
    assert len(store.get(["long"])[0].text) == 2_000_000
    assert store.passages(MODEL, ["long"])[0].vectors.shape == (15_000, DIM)


@contextmanager
def templated(client: Elasticsearch, prefix: str, template: dict[str, Any]) -> Iterator[None]:
    """While an index template of the server is for all indices of a prefix."""
    client.indices.put_index_template(name=prefix, index_patterns=[f"{prefix}*"], template=template)
    try:
        yield
    finally:
        client.indices.delete_index_template(name=prefix)


def names(client: Elasticsearch, prefix: str) -> list[str]:
    return sorted(client.indices.get(index=f"{prefix}*", expand_wildcards="all").body)


def test_indices_behind_our_alias_stay(
    elastic_url: str, prefix: str, client: Elasticsearch, settings: Settings, store: ElasticStore
) -> None:
    alias = f"{prefix}-app"
    theirs = [f"{alias}-{at:06d}" for at in (1, 2, 3)]
    for one in theirs:
        client.indices.create(index=one, mappings={"properties": {"hello": {"type": "text"}}}, aliases={alias: {}})
    with pytest.raises(BadInput, match=rf"index {theirs[0]} on .* was not made by Dragoman, and is left alone"):
        StoreLocation(elastic_url, "app").open()
    with pytest.raises(BadInput, match=rf"{alias} is the name of an alias of {theirs[0]}"):
        StoreLocation(elastic_url, "app").open(4)
    with open_database(settings.database) as engine:
        collection = register(engine, "app", replace(settings, store=elastic_url), "x", FakeEncoder().spec)
        remove(engine, collection, settings)
    assert sorted(client.indices.get_alias(name=alias).body) == theirs
    client.indices.create(index=f"{prefix}-name")
    with pytest.raises(BadInput, match=rf"{prefix}-name is the name of an index"):
        StoreLocation(elastic_url, "name").open()
    client.indices.create(index=f"{store.alias}s", aliases={store.alias: {}})  # since the store was opened
    with pytest.raises(BadInput, match="is the name of an alias of"):
        store.publish()
    assert list(client.indices.get_alias(name=store.alias).body) == [f"{store.alias}s"]
    assert names(client, prefix) == sorted([*theirs, f"{prefix}-name", store.index, f"{store.alias}s"])


def test_another_home_with_the_same_prefix_is_refused(elastic_url: str, prefix: str, client: Elasticsearch) -> None:
    ours, theirs = (StoreLocation(elastic_url, "c", database_id=name) for name in ("mine", "theirs"))
    mine = ours.open()
    with pytest.raises(BadInput, match=r"belongs to a collection of another database, and is left alone"):
        theirs.open()
    mine.publish()
    with pytest.raises(BadInput, match=r"is the name of an alias of .*-c-000001, which is not this collection's"):
        theirs.open(2)
    assert theirs.generations() == []
    theirs.drop()
    assert (names(client, prefix), ours.generations()) == ([f"{prefix}-c-000001"], [1])
    mine.drop()
    assert names(client, prefix) == []


def test_a_store_of_before_marks_is_taken_over_once(elastic_url: str, prefix: str, client: Elasticsearch) -> None:
    mapping = Layout().mapping()
    mapping["properties"]["@timestamp"] = {"type": "date"}  # a template put it beside ours
    client.indices.create(index=f"{prefix}-c-000001", mappings=mapping)
    ours, theirs = (StoreLocation(elastic_url, "c", database_id=name) for name in ("mine", "theirs"))
    with closing(StoreLocation(elastic_url, "c").open()) as old:
        old.create(MODEL, DIM)
        assert ours.generations() == [1]
        ours.open(make=False).close()
        with pytest.raises(BadInput, match="of another database"):
            theirs.open()
        StoreLocation(elastic_url, "c").open(make=False).close()
        assert old.models() == {MODEL: DIM}
    mapping["properties"]["title"] = {"type": "keyword"}
    client.indices.create(index=f"{prefix}-d-000001", mappings=mapping)
    with pytest.raises(BadInput, match="was not made by Dragoman"):
        StoreLocation(elastic_url, "d").open()


def test_a_template_that_would_change_a_store_is_named(elastic_url: str, prefix: str, client: Elasticsearch) -> None:
    templates: list[tuple[dict[str, Any], str]] = [
        ({"mappings": {"_source": {"excludes": ["text"]}}}, "another _source"),
        ({"mappings": {"_source": {"enabled": False}}}, "another _source"),
        ({"settings": {"index.mapping.source.mode": "synthetic"}}, "another _source"),
        ({"aliases": {"half-built": {}}}, "the alias half-built"),
        ({"mappings": {"_routing": {"required": True}}}, "required routing"),
    ]
    for template, what in templates:
        named = rf"an index template .* gives {prefix}-c-000001 {what} \({prefix}\); exempt"
        with templated(client, prefix, template), pytest.raises(StoreError, match=named):
            StoreLocation(elastic_url, "c").open()
        assert names(client, prefix) == []
    beside = {"mappings": {"properties": {"@timestamp": {"type": "date"}, "title": {"type": "keyword"}}}}
    with templated(client, prefix, beside):
        StoreLocation(elastic_url, "c").open().close()
    StoreLocation(elastic_url, "c").open(make=False).close()
