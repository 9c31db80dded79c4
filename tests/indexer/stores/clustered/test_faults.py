"""Accidents on real servers, with security and without: nothing lost, nothing doubled, and each says what to do."""

import json
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pytest
import sqlalchemy as sa
from elasticsearch import Elasticsearch, ElasticsearchWarning

from encoders.document import Document, Encoded, Passages, int8_rows, unit_rows
from encoders.errors import StoreError
from encoders.folder.model_folder import ModelFolder
from indexer import index_sources as indexing
from indexer.attaching.attached_collection import AttachedCollection, detach
from indexer.cluster.cluster_address import Address, Credentials
from indexer.cluster.cluster_errors import SearchRefused, TemporaryFailure, is_temporary
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger.database import connect, open_database, transaction
from indexer.ledger.index_runs import runs
from indexer.ledger.tables import DONE, Chunk
from indexer.readers.formats import count_distinct, fingerprint, read
from indexer.readers.records.source import ReadOptions
from indexer.stores.attached.attached_address import Attachment
from indexer.stores.clustered import server_index, writing
from indexer.stores.clustered.document_layout import Layout
from indexer.stores.clustered.scan import pages_in_order
from indexer.stores.clustered.server_index import ServerIndex
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument, VectorQuery, VectorStore
from tests.conftest import fallen, lent, skip_or_fail, until
from tests.indexer.attaching.owner import Owner, source, texts
from trials import ROOT
from trials.fake_encoder import FakeEncoder
from trials.full_disk import WATERMARKS, watermark
from trials.servers.elastic import LITTLE_ROOM, PASSWORD, PRESSURE, REQUEST, VERSION, ElasticServer, client_of, running
from trials.servers.process import ServerMissing, free_port
from trials.servers.secured import admin, credentials, secured_server

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")  # of a server that died

MODEL, DIM = "model-a", 32
Opener = Callable[..., ElasticStore]


@pytest.fixture
def secured_store(secured: ElasticServer) -> Iterator[Opener]:
    """Opens stores of one empty collection on the secured server."""

    def opener(user: str = "shop", prefix: str = "shop") -> ElasticStore:
        address = Address.parse(f"{secured.url}/{prefix}?replicas=0")
        return stack.enter_context(closing(ElasticStore(address, "c", credentials(secured, user))))

    with ExitStack() as stack:
        opener().create(MODEL, DIM)
        yield opener
    StoreLocation(f"{secured.url}/shop", "c", credentials(secured, "admin")).open().drop()


class Shop(NamedTuple):
    """A place of its own on a server that may be killed, and that may speak TLS and ask who comes."""

    server: ElasticServer
    secure: bool
    address: Address

    @property
    def credentials(self) -> Credentials:
        """Of a user with rights on such places alone."""
        return credentials(self.server, "shop") if self.secure else Credentials()

    def rejections(self) -> int:
        """How often the server had no room for a write."""
        with admin(self.server) if self.secure else client_of(self.server.url) as client:
            (node,) = client.nodes.stats(metric="indexing_pressure")["nodes"].values()
        total = node["indexing_pressure"]["memory"]["total"]
        return int(total["coordinating_rejections"] + total["primary_rejections"])


def _secured(folder: Path) -> ElasticServer:
    server = secured_server(folder)
    server.settings |= LITTLE_ROOM
    return server


SECURED = pytest.param("secured", marks=[pytest.mark.elastic, pytest.mark.long])


@pytest.fixture(params=[pytest.param("plain", marks=pytest.mark.elastic), SECURED])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A place on a server that may be killed: without security, and in ``make test-all`` with it, too."""
    secure = request.param == "secured"
    with ExitStack() as stack:
        if secure:
            server = stack.enter_context(lent("secured-killable", _secured))
        else:
            server = request.getfixturevalue("killable")
        yield Shop(server, secure, Address.parse(f"{server.url}/shop-{uuid.uuid4().hex[:12]}?replicas=0"))


@pytest.fixture
def opened(shop: Shop) -> Iterator[Opener]:
    """Opens stores of one empty collection on the server that may be killed."""

    def opener() -> ElasticStore:
        return stack.enter_context(closing(ElasticStore(shop.address, "c", shop.credentials)))

    with ExitStack() as stack:
        opener().create(MODEL, DIM)
        yield opener
        shop.server.revive()
        opener().drop()


def items(numbers: range, text: str = "words of a page ", revision: int = 0) -> list[StoredDocument]:
    vectors = unit_rows(np.random.default_rng(7).standard_normal((numbers.stop, DIM)).astype(np.float32))
    return [
        StoredDocument(
            Document(f"d{number:05d}", ("en", "de")[number % 2], f"{text}{number}", revision=revision),
            vectors[number],
            Passages(int8_rows(vectors[number][None]), np.array([[0, 5]], np.int32)),
        )
        for number in numbers
    ]


def holds_exactly(store: VectorStore, expected: list[StoredDocument]) -> None:
    """The store has these documents, whole, once each."""
    scanned = [one for page in store.scan(MODEL) for one in page]
    assert [one.document for one in scanned] == [one.document for one in expected]
    assert np.stack([one.vector for one in scanned]).tobytes() == np.stack([one.vector for one in expected]).tobytes()
    assert sum(store.count().values()) == len(expected)


def refuses_alone(store: VectorStore, large: list[StoredDocument], reason: str) -> None:
    """Of six documents and others that are too large the six are written."""
    small = items(range(6))
    report = store.put(MODEL, [*small[:3], *large, *small[3:]])
    assert (report.stored, set(report.refused)) == (6, {one.document.doc_id for one in large})
    assert all(reason in sentence for sentence in report.refused.values())
    holds_exactly(store, small)


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "lang": "en", "text": "The river rose."}\n')
    return str(tmp_path / "docs.jsonl")


def test_a_user_does_what_the_rights_allow_and_nothing_else(secured_store: Opener) -> None:
    store = secured_store()
    store.put(MODEL, items(range(10)))
    store.publish()
    holds_exactly(store, items(range(10)))
    assert store.delete(["d00000"]) == 1
    assert len(store.search(VectorQuery(MODEL, {"en": items(range(1))[0].vector[None]}, 3))["en"][0].doc_ids) == 3
    with pytest.raises(StoreError, match=r"does not allow it \(security_exception.*give the user these rights"):
        secured_store(prefix="elsewhere")
    guest = secured_store("guest")  # who may read
    assert len(guest.get(["d00001"])) == 1
    with pytest.raises(StoreError, match=r"does not allow it|rights"):
        guest.put(MODEL, items(range(10, 14)))
    assert guest.count() == {"de": 5, "en": 4}


@pytest.mark.usefixtures("default_folder")
def test_rights_on_one_prefix_are_enough_for_every_command(secured: ElasticServer, tmp_path: Path, file: str) -> None:
    settings = Settings.read(home=tmp_path, store=f"{secured.url}/shop")
    settings = replace(settings, credentials=credentials(secured, "shop"))
    engine, client = connect(settings.database), admin(secured)
    try:
        indexing.index([file], "pages", settings=settings, device="cpu")
        indexing.index([file], "pages", settings=settings, method="first", rebuild=True, device="cpu")
        assert generations.roll_back(engine, "pages", settings).number == 1
        assert list(client.indices.get_alias(name="shop-pages")) == ["shop-pages-000001"]
        client.index(index="shop-theirs", id="t", document={"body": "The old town was under water.", "lang": "en"})
        for companion in ("", "shop"):
            attachment = Attachment(secured.url, "shop-theirs", "body", lang_field="lang", companion=companion)
            with AttachedCollection.open("theirs", attachment, settings=settings, device="cpu") as attached:
                assert attached.catch_up().encoded == 1
            detach(engine, collections.require(engine, "theirs"), settings)
        collections.remove(engine, collections.require(engine, "pages"), settings)
        assert list(client.indices.get(index="shop-pages*,shop-theirs*")) == ["shop-theirs"]
    finally:
        client.indices.delete(index="shop-theirs", ignore_unavailable=True)
        client.close()
        engine.dispose()


def test_wrong_credentials_and_certificates_are_said_without_the_password(secured: ElasticServer) -> None:
    with pytest.raises(StoreError, match="refused the credentials") as refused:
        StoreLocation(f"{secured.url}/shop", "c", credentials(secured, "shop", "secret-wrong")).open()
    assert "secret-wrong" not in str(refused.value)
    with pytest.raises(StoreError, match="certificate that is not trusted"):
        StoreLocation(f"{secured.url}/shop", "c", Credentials("shop", PASSWORD)).open()


def test_a_password_stands_in_no_file_and_no_message(
    secured: ElasticServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    url = secured.url.replace("https://", f"https://shop:{quote(PASSWORD)}@")
    command = [sys.executable, "-c", "from query.cli import main; main()", "index", file, "-c", "secret"]
    places = ["--store", f"{url}/shop", "--home", str(tmp_path / "home"), "--debug", "--method", "first"]
    monkeypatch.setenv("DRAGOMAN_ELASTIC_CA", str(secured.ca))
    done = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    everything = done.stdout + done.stderr + "".join(path.read_bytes().decode("latin-1") for path in files)
    assert PASSWORD not in everything
    assert quote(PASSWORD) not in everything
    settings = Settings.read(home=tmp_path / "home", store=f"{url}/shop")
    with closing(StoreLocation(settings.store, "secret", settings.credentials).open()) as store:
        assert store.count() == {"en": 1}
        store.drop()


def test_a_full_queue_is_waited_for(shop: Shop, opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four writers send twice what the server has room for, at once, again and again."""
    monkeypatch.setattr(writing, "_BACKOFF", (0.2, 2.0))
    long, stores = "words of a long page " * 10_000, [opened() for _ in range(4)]
    rejected = shop.rejections()

    def write(start: int) -> None:
        stores[start // 8 % 4].put(MODEL, items(range(start, start + 8), long))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(0, 96, 8)))
    assert shop.rejections() > rejected, "the server never was full, so nothing was tested"
    holds_exactly(opened(), items(range(96), long))


def test_documents_too_large_are_refused_and_those_too_large_together_are_written_apart(opened: Opener) -> None:
    store = opened()
    refuses_alone(store, items(range(6, 8), "x" * REQUEST), "larger than the server takes")
    several = items(range(6), "words of a page " * 30_000)
    assert store.put(MODEL, several).stored == 6
    holds_exactly(opened(), several)


@pytest.mark.skipif(VERSION.startswith("8."), reason="version 8 counts less for a document, and takes it")
def test_a_document_that_takes_more_memory_than_the_server_has_is_refused(opened: Opener) -> None:
    refuses_alone(opened(), items(range(6, 7), "x" * (PRESSURE // 4)), "more memory than the server has for writes")


@pytest.mark.parametrize("away", [0, pytest.param(30, marks=pytest.mark.long)])
def test_a_killed_server_loses_and_doubles_nothing(
    shop: Shop, opened: Opener, away: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 600.0)  # a slow machine starts the server slowly
    store, begun = opened(), threading.Event()

    def write() -> None:
        for start in range(0, 1500, 100):
            assert store.put(MODEL, items(range(start, start + 100))).stored == 100
            if start == 300:
                begun.set()

    with ThreadPoolExecutor(1) as pool:
        writing_ = pool.submit(write)
        assert begun.wait(60)
        shop.server.kill()
        time.sleep(away)  # writes are refused at once
        shop.server.start()
        writing_.result()
    holds_exactly(opened(), items(range(1500)))


def test_a_server_that_is_silent_is_waited_for(shop: Shop, opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that timed out may still be carried out, late: it must not undo what was written since."""
    with monkeypatch.context() as patch:
        patch.setattr("indexer.cluster.cluster_client.TIMEOUT", 2)
        store = opened()
    store.put(MODEL, items(range(50)))
    timed_out, wait = threading.Event(), writing._Backoff.wait

    def waited(backoff: writing._Backoff, cause: StoreError) -> None:
        timed_out.set()
        wait(backoff, cause)

    monkeypatch.setattr(writing._Backoff, "wait", waited)
    shop.server.pause()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(store.put, MODEL, items(range(100), revision=1))
        try:
            assert timed_out.wait(60)
        finally:
            shop.server.go_on()
        assert late.result().stored == 100
    assert opened().put(MODEL, items(range(100), "newest ", revision=2)).stored == 100
    holds_exactly(opened(), items(range(100), "newest ", revision=2))


def test_an_unreachable_server_is_told_of_and_given_up_and_a_hopeless_write_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(doc_ids: Sequence[str]) -> dict[str, Any]:
        if "500" in doc_ids:
            raise StoreError("the server writes nothing")
        raise TemporaryFailure("the server's queue is full")

    url = f"http://127.0.0.1:{free_port()}"
    with Elasticsearch(url) as client:
        started = time.monotonic()
        with pytest.raises(StoreError, match="writes nothing"):
            writing.write(client, url, map(str, range(512)), failing)
        assert time.monotonic() - started < writing.PATIENCE / 4
        monkeypatch.setattr(writing, "PATIENCE", 0.5)
        monkeypatch.setattr(writing, "_BACKOFF", (0.01, 0.1))
        with pytest.raises(StoreError, match="can't be reached"):
            writing.write(client, url, ["a"], lambda _: {"a": {"_op_type": "delete", "_index": "shop", "_id": "a"}})
        assert caplog.text.count("can't be reached") == 1


@pytest.mark.elastic
@pytest.mark.long
@pytest.mark.usefixtures("interruptible", "default_folder")
def test_a_full_disk_of_the_server_ends_in_sentences_and_loses_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running(WATERMARKS))
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        assert fallen(watermark(server.url, tmp_path)) == []


_KILLED = """
import os, signal, sys
from indexer.ledger.ledger import Ledger
from query.cli import run
done, chunks = Ledger.done, []
def dying(*arguments):
    done(*arguments)
    chunks.append(arguments)
    if len(chunks) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
Ledger.done = dying
run(sys.argv[1:])
"""


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
def test_after_kills_the_ledger_says_nothing_done_that_the_server_lacks(
    elastic_url: str, tmp_path: Path, small: ModelFolder, kills: int
) -> None:
    """SIGKILL of ``dragoman index`` whenever two chunks more are done, and the same command again."""
    ids = [f"d{at:04d}" for at in range((3 * kills + 1) * CHUNK_DOCUMENTS)]
    file, home = tmp_path / "docs.jsonl", tmp_path / "home"
    file.write_text("".join(json.dumps({"id": one, "lang": "en", "text": f"River {one}."}) + "\n" for one in ids))
    settings = Settings.read(home=home, store=elastic_url)
    arguments = ["index", str(file), "-c", "c", "--encoder", str(small.path), "--device", "cpu", "-q"]
    arguments += ["--no-calibration", "--home", str(home), "--store", elastic_url]
    stored: set[str] = set()
    for killed in range(1, kills + 2):
        program = ("-c", _KILLED) if killed <= kills else ("-m", "query.cli")
        done = subprocess.run([sys.executable, *program, *arguments], cwd=ROOT, check=False)
        assert done.returncode == (-signal.SIGKILL if killed <= kills else 0)
        with closing(StoreLocation(elastic_url, "c").open(make=False)) as store:
            stored = set(store.ids())
        with open_database(settings.database) as engine, transaction(engine) as session:
            chunks = session.scalars(sa.select(Chunk).where(Chunk.state == DONE))
            starts = [chunk.number * CHUNK_DOCUMENTS for chunk in chunks]
        assert killed > kills or len(starts) >= 2 * killed
        assert all(stored.issuperset(ids[start : start + CHUNK_DOCUMENTS]) for start in starts)
    assert stored == set(ids)
    with open_database(settings.database) as engine:
        (run,) = runs(engine, "c")
    assert (run.state, run.encoded + run.unchanged) == (DONE, len(ids))


OPTIONS = ReadOptions(fields={"text": "content.body", "title": "headline"})


@pytest.fixture
def theirs(elastic_url: str, engine: sa.Engine) -> Iterator[Owner]:
    """An owner with forty documents in two shards."""
    with closing(Owner(elastic_url, engine, companion=False)) as made:
        made.make()
        made.write_all(texts(40))
        yield made


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
def test_a_shard_that_is_away_is_not_taken_for_empty(
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


def test_an_index_is_read_whole(elastic: ElasticServer, theirs: Owner, engine: sa.Engine, settings: Settings) -> None:
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
    address = Address.parse(f"{elastic_url}?shards=2")
    with closing(ElasticStore(address, "c", Credentials())) as store, client_of(address.server) as client:
        store.create(MODEL, DIM)
        store.put(MODEL, items(range(20)))
        shard = Shard(elastic, client, store.index)
        shard.lose()
        back = threading.Timer(1.0, shard.find)
        back.start()
        assert store.put(MODEL, items(range(20, 40))).stored == 20
        back.join()
        holds_exactly(store, items(range(40)))


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
    "companion", [pytest.param(away, marks=pytest.mark.long) for away in (False, True)], ids=["in place", "companion"]
)
def test_a_restart_is_waited_for(
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
    searches, crowded = [{"number": number, "size": 1} for number in range(3)], Crowded(FULL, FULL)
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
