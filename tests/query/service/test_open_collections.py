"""Collections stay open while they are made anew, deleted or migrated; searches wait for threads and each other."""

import asyncio
import datetime as dt
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock, patch
from unittest.mock import call as mock_call

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.document import Document, Encoded, Encoder, EncoderSpec, FloatArray
from encoders.errors import BadInput, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import GpuFailure, GpuFull
from encoders.text.tokens import Tokenizer
from indexer.cluster.cluster_address import Address
from indexer.collection import collection as collections
from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.ledger.database import now, open_database, transaction
from indexer.stores.collection_names import NoCollection
from indexer.stores.embedded import EmbeddedStore
from query.calibration import calibration_table
from query.calibration.calibration import Calibration
from query.calibration.calibration_summary import Summary
from query.calibration.calibration_table import CalibrationRow
from query.cli import run
from query.collections.removal import remove_collection
from query.ranking.query_encoder import open_query_encoder
from query.ranking.searcher_opening import EmptyCollection
from query.service import collection_watch, open_collections, query_batcher
from query.service.open_collections import OpenCollections
from query.service.query_batcher import QueryBatcher
from query.service.refusals import Refused, refusal
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from tests.conftest import Patch, until
from trials.documents import write_records
from trials.servers.elastic import client_of
from trials.servers.service import serving


class Home:
    """A home whose collections of one document are made anew and deleted while they are served."""

    def __init__(self, settings: Settings, encoder: ModelFolder, served: OpenCollections) -> None:
        self.settings, self.encoder, self.served = settings, encoder, served

    def make(self, text: str = "coffee", name: str = "c", method: str = "first", lang: str = "en") -> None:
        """Index a document; the language is its id."""
        source = write_records([{"id": lang, "lang": lang, "text": text}], self.settings.home.parent / "docs.jsonl")
        encoder = str(self.encoder.path)
        index([str(source)], name, settings=self.settings, encoder=encoder, method=method, device="cpu")

    def remove(self, name: str = "c") -> None:
        with open_database(self.settings.database) as engine:
            remove_collection(engine, collections.require(engine, name), self.settings)

    def first_text(self, name: str = "c") -> str:
        with self.served.searcher(name) as searcher:
            (hit,) = searcher.search("coffee", lang="en")
            return hit.document.text

    def open_files(self) -> list[str]:
        """Files of the store that this process has open, also those that are removed."""
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [str(link) for link in links if self.settings.home / "store" in link.parents]


@pytest.fixture
def home(settings: Settings, word_model: ModelFolder) -> Iterator[Home]:
    with closing(OpenCollections(ServiceOptions(settings, device="cpu"), Metrics())) as served:
        yield Home(settings, word_model, served)


def test_a_collection_that_was_deleted_and_made_anew_is_searched_as_it_is_now(home: Home) -> None:
    """Though nobody searched while it was gone; and documents of a new language as soon as their run ended."""
    for text in ("coffee of the first collection", "coffee of the second collection"):
        home.make(text)
        assert home.first_text() == text
        home.make(lang="de")
        with home.served.searcher("c") as searcher:
            assert {hit.lang for hit in searcher.search("coffee", lang="en")} == {"de", "en"}
        home.remove()


def test_a_calibration_that_is_made_after_the_clock_was_put_back_is_noticed(home: Home) -> None:
    home.make()
    with open_database(home.settings.database) as engine:
        with home.served.searcher("c") as before:
            calibration = Calibration.none(before.stored_model, before.vector_parts)
        calibration_table.keep(engine, require(engine, "c"), calibration, Summary.of(calibration, "you"))
        with home.served.searcher("c") as calibrated:
            assert calibrated is not before
            assert calibrated.calibration
        with transaction(engine) as session:
            session.execute(sa.update(CalibrationRow).values(created=now() - dt.timedelta(days=1)))
        with home.served.searcher("c") as after, home.served.searcher("c") as again:
            assert again is after is not calibrated


def test_a_search_in_a_collection_that_is_deleted_meanwhile_makes_no_file_in_its_place(home: Home) -> None:
    home.make()
    with home.served.searcher("c") as searcher:
        home.remove()
        home.served.close_unused()
        with pytest.raises(StoreError, match="is gone"):
            searcher.search("coffee", lang="en")  # it opens one more connection
    assert not home.open_files()
    assert not list((home.settings.home / "store").iterdir())
    with pytest.raises(BadInput, match="there is no collection 'c'"):
        home.first_text()


@pytest.mark.parametrize("error", [StoreError("away"), RuntimeError("a defect")])
def test_a_failure_while_counting_leaves_no_store_open(home: Home, monkeypatch: Patch, error: Exception) -> None:
    home.make()
    home.first_text()
    monkeypatch.setattr(open_collections, "_COUNT_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "count", Mock(side_effect=error))
        with pytest.raises(type(error)):
            home.first_text()
    home.remove()
    home.served.close_unused()
    assert not home.open_files()


def test_a_search_is_counted_once_though_the_calibration_is_switched_meanwhile(home: Home) -> None:
    """Another thread may write the new state at any time."""
    home.make()
    home.first_text()
    opened = home.served._open["c"]
    opened.state = MagicMock(__eq__=Mock(side_effect=cycle([True, False])))
    with home.served.searcher("c"):
        assert opened.searches == 1
    assert opened.searches == 0


def test_threads_that_need_an_encoder_at_once_load_it_once(home: Home, monkeypatch: Patch) -> None:
    for name in "abcd":
        home.make(name=name)

    def slow(*arguments: Any) -> Encoder:
        time.sleep(0.2)
        return open_query_encoder(*arguments)

    loaded = Mock(side_effect=slow)
    monkeypatch.setattr(open_collections, "open_query_encoder", loaded)
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(home.first_text, "abcd")) == ["coffee"] * 4
    assert loaded.call_count == 1


def test_a_warm_collection_has_read_its_whole_vocabulary(demo: Settings) -> None:
    """Otherwise one of the first requests waits for it."""
    with (
        closing(OpenCollections(ServiceOptions(demo, device="cpu"), Metrics())) as served,
        patch.object(Tokenizer, "_read_whole", autospec=True, side_effect=Tokenizer._read_whole) as read,
    ):
        served.warm("demo")
    assert read.called


def test_an_encoder_that_no_collection_needs_any_more_is_let_go(home: Home) -> None:
    home.make(name="a")
    home.make(name="b", method="segments")
    with home.served.searcher("a") as first, home.served.searcher("b") as second:
        pass
    home.remove("a")
    home.served.close_unused()
    assert [*home.served._encoders.values()] == [second.encoder]
    home.make(name="a")
    with home.served.searcher("a") as again:
        assert again.encoder is not first.encoder
        assert again.search("coffee", lang="en")


@pytest.mark.parametrize("companion", [[], ["--companion"]])
def test_an_alias_that_moved_is_answered_from_no_other_index(
    companion: list[str], elastic_url: str, small: ModelFolder, settings: Settings, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(open_collections, "_COUNT_SECONDS", 0.0)
    place = Address.parse(elastic_url)
    alias, home = f"{place.prefix}-news", ["-c", "news", "--home", str(settings.home)]
    fields = ["--text", "body", "--lang-field", "lang", "--store", elastic_url, "--encoder", str(small.path)]
    attach = ["attach", alias, *fields, *companion, "--device", "cpu", "-q", *home]
    with client_of(place.server) as client:
        for number in (1, 2):
            client.index(index=f"{alias}-{number}", id=f"d{number}", document={"body": "rivers", "lang": "en"})
        client.indices.put_alias(index=f"{alias}-1", name=alias)
        assert run(attach) == 0
        with closing(OpenCollections(ServiceOptions(settings, device="cpu"), Metrics())) as served:

            def found() -> list[str]:
                with served.searcher("news") as searcher:
                    return [hit.doc_id for hit in searcher.search("rivers", lang="en")]

            assert found() == ["d1"]
            moves = [{kind: {"alias": alias, "index": f"{alias}-{at}"}} for kind, at in (("remove", 1), ("add", 2))]
            client.indices.update_aliases(actions=moves)
            with pytest.raises(StoreError, match=f"{alias} on .* is another index than {alias}-1 by now"):
                found()
            with suppress(EmptyCollection, StoreError):
                assert found() == []  # a companion still has the vectors, and no document to show
            assert run(attach) == 0
            assert found() == ["d2"]


def _do(settings: Settings, act: Callable[[], object], seconds: float = 60.0) -> tuple[object, float]:
    """What one call gives, and the number of calls that are counted as late."""
    metrics = Metrics()

    async def call() -> object:
        options = replace(ServiceOptions(settings), threads=1, seconds=seconds)
        return await SearchThreads(options, metrics).do(act)

    try:
        answer: object = asyncio.run(call())
    except (TimeoutError, Refused) as error:
        answer = error
    (counter,) = metrics.refused.collect()
    return answer, sum(sample.value for sample in counter.samples if sample.name.endswith("_total"))


def test_a_call_that_takes_too_long_is_given_up_and_counted(settings: Settings) -> None:
    """But not one whose server did not answer in time, as Elasticsearch or PostgreSQL, nor one in time."""

    def act() -> None:
        raise TimeoutError("the server did not answer")

    answer, late = _do(settings, act)
    assert (repr(answer), late) == ("TimeoutError('the server did not answer')", 0)
    assert [_do(settings, lambda: value) for value in (None, 7)] == [(None, 0), (7, 0)]  # noqa: B023 - called at once
    go_on = threading.Event()
    try:
        answer, late = _do(settings, lambda: go_on.wait(60), seconds=0.1)
    finally:
        go_on.set()
    assert isinstance(answer, Refused)
    assert (answer.status, late, "took too long" in str(answer)) == (503, 1, True)


@pytest.mark.parametrize(
    ("error", "ends"), [(GpuFailure("the H100 computes nothing any more"), True), (GpuFull("it is full"), False)]
)
def test_a_card_that_computes_nothing_any_more_ends_the_process(
    error: GpuFailure, ends: bool, settings: Settings, monkeypatch: Patch
) -> None:
    raised = Mock()
    monkeypatch.setattr(signal, "raise_signal", raised)

    async def call() -> GpuFailure | None:
        threads = SearchThreads(ServiceOptions(settings), Metrics())
        for _ in range(2):
            with pytest.raises(GpuFailure):
                await threads.do(Mock(side_effect=error))
        return threads.failure

    assert asyncio.run(call()) is (error if ends else None)
    assert raised.mock_calls == [mock_call(signal.SIGTERM)] * ends


class Slow:
    """An encoder that waits until it may go on, and remembers what it was called with."""

    spec = EncoderSpec("slow", "first", 2, (), "model", "build")

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.begun, self.may = threading.Event(), threading.Event()

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        raise NotImplementedError

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        self.calls.append([query.text for query in queries])
        self.begun.set()
        assert self.may.wait(60)
        return np.array([[len(query.text), 1] for query in queries], dtype=np.float32)


@pytest.fixture
def encoder() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.may.set()


def query(text: str) -> Document:
    return Document("query", "en", text)


def test_a_lone_query_is_encoded_at_once_and_others_in_one_call(encoder: Slow) -> None:
    waiting, others = QueryBatcher(encoder, Metrics()), ["a" * length for length in range(2, 10)]
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(waiting.encode_queries, [query("a")])
        assert encoder.begun.wait(60)
        assert encoder.calls == [["a"]]
        following = [pool.submit(waiting.encode_queries, [query(text)]) for text in others * 2]
        until(lambda: len(waiting._waiting._waiting) == 2 * len(others))
        encoder.may.set()
        assert first.result()[0, 0] == 1
        assert [one.result()[0, 0] for one in following] == [len(text) for text in others * 2]
    assert len(encoder.calls) == 2
    assert sorted(encoder.calls[1]) == others
    waiting.encode_queries([query("a")])
    assert len(encoder.calls) == 2


def test_no_more_vectors_are_kept_than_there_is_room_for(encoder: Slow, monkeypatch: Patch) -> None:
    waiting = QueryBatcher(encoder, Metrics())
    monkeypatch.setattr(query_batcher, "KEPT", 3)
    encoder.may.set()
    for text in ("1", "2", "3", "1", "4", "1", "2"):
        waiting.encode_queries([query(text)])
    assert encoder.calls == [["1"], ["2"], ["3"], ["4"], ["2"]]
    assert len(waiting._vectors) == 3


def test_only_a_missing_collection_is_not_found_whatever_a_query_says() -> None:
    assert refusal(BadInput("the encoder knows no word of the query 'there is no collection'")).status == 400
    assert refusal(NoCollection("there is no collection 'c'")).status == 404


def test_a_service_that_began_without_a_cluster_answers_for_an_index_that_is_attached_later(
    elastic_url: str, small: ModelFolder, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(collection_watch, "_EVERY", 0.1)
    place, home = Address.parse(elastic_url), tmp_path / "home"
    index = f"{place.prefix}-late"
    with serving(ServiceOptions(Settings.read(home=home), device="cpu")) as service:
        with client_of(place.server) as client:
            client.index(index=index, id="d", document={"body": "a text about rivers", "lang": "en"}, refresh=True)
        fields = ["--text", "body", "--lang-field", "lang", "--store", elastic_url, "--encoder", str(small.path)]
        assert run(["attach", index, *fields, "--device", "cpu", "-q", "-c", "late", "--home", str(home)]) == 0
        until(lambda: service.get("/api/ready").json()["collections"] == {"late": "ready"})
        for query in ({"match": {"body": "rivers"}}, {"cross_lingual": {"query": "rivers", "lang": "en"}}):
            answer = service.post(f"/{index}/_search", json={"query": query})
            assert [hit["_id"] for hit in answer.json()["hits"]["hits"]] == ["d"], answer.text
