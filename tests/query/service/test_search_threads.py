"""Searches wait for threads and queries for each other, and each failure is an answer."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from encoders.document import Document, Encoded, EncoderSpec, FloatArray
from encoders.errors import BadInput
from encoders.inference.graph import GpuFailure, GpuFull
from indexer.collection.collection import NoCollection
from indexer.collection.settings import Settings
from query.service import query_batcher
from query.service.query_batcher import QueryBatcher
from query.service.refusals import Refused, refusal
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions
from tests.conftest import until


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


def test_a_time_limit_of_a_server_is_not_that_of_the_search(settings: Settings) -> None:
    """As a socket's: Elasticsearch or PostgreSQL did not answer."""

    def act() -> None:
        raise TimeoutError("the server did not answer")

    answer, late = _do(settings, act)
    assert (repr(answer), late) == ("TimeoutError('the server did not answer')", 0)


def test_a_call_that_takes_too_long_is_given_up_and_counted(settings: Settings) -> None:
    go_on = threading.Event()
    try:
        answer, late = _do(settings, lambda: go_on.wait(60), seconds=0.1)
    finally:
        go_on.set()
    assert isinstance(answer, Refused)
    assert (answer.status, late) == (503, 1)


@pytest.mark.parametrize("value", [None, 7])
def test_a_call_in_time_gives_its_value(settings: Settings, value: object) -> None:
    assert _do(settings, lambda: value) == (value, 0)


@pytest.mark.parametrize(
    ("error", "ends"), [(GpuFailure("the H100 computes nothing any more"), True), (GpuFull("it is full"), False)]
)
def test_a_card_that_computes_nothing_any_more_ends_the_process(
    error: GpuFailure, ends: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", signals.append)

    def act() -> None:
        raise error

    async def call() -> GpuFailure | None:
        threads = SearchThreads(ServiceOptions(settings), Metrics())
        for _ in range(2):
            with pytest.raises(GpuFailure):
                await threads.do(act)
        return threads.failure

    assert asyncio.run(call()) is (error if ends else None)
    assert signals == [signal.SIGTERM] * ends


SPEC = EncoderSpec("slow", "first", 2, (), "model", "build")


class Slow:
    """An encoder that waits until it may go on, and remembers what it was called with."""

    spec = SPEC

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.begun, self.may = threading.Event(), threading.Event()

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        raise NotImplementedError

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        self.calls.append([query.text for query in queries])
        self.begun.set()
        assert self.may.wait(60)
        if any(query.text == "bad" for query in queries):
            raise ValueError("bad")
        return np.array([[len(query.text), 1] for query in queries], dtype=np.float32)


@pytest.fixture
def encoder() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.may.set()


@pytest.fixture
def waiting(encoder: Slow) -> QueryBatcher:
    return QueryBatcher(encoder, Metrics())


def query(text: str) -> Document:
    return Document("query", "en", text)


def test_a_lone_query_is_encoded_at_once_and_those_that_came_meanwhile_in_one_call(
    encoder: Slow, waiting: QueryBatcher
) -> None:
    others = ["a" * length for length in range(2, 10)]
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


def test_no_more_vectors_are_kept_than_there_is_room_for(
    encoder: Slow, waiting: QueryBatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_batcher, "KEPT", 3)
    encoder.may.set()
    for text in ("1", "2", "3", "1", "4", "1", "2"):
        waiting.encode_queries([query(text)])
    assert encoder.calls == [["1"], ["2"], ["3"], ["4"], ["2"]]
    assert len(waiting._vectors) == 3


def test_a_failure_is_that_of_those_who_waited_for_it_alone(encoder: Slow, waiting: QueryBatcher) -> None:
    encoder.may.set()
    with pytest.raises(ValueError, match="bad"):
        waiting.encode_queries([query("bad")])
    assert waiting.encode_queries([query("good")])[0, 0] == 4


def test_only_a_missing_collection_is_not_found_whatever_a_query_says() -> None:
    sentence = "the encoder knows no word of the query 'there is no collection'"
    assert refusal(BadInput(sentence)).status == 400
    assert refusal(NoCollection("there is no collection 'c'")).status == 404
