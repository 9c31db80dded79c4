"""Queries that wait are encoded together, a lone query at once, and each query once."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from encoders.document import Document, Encoded, EncoderSpec, FloatArray
from query.service import query_batcher
from query.service.query_batcher import QueryBatcher
from query.service.service_metrics import Metrics
from tests.conftest import until

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
def encoder() -> Slow:
    return Slow()


@pytest.fixture
def waiting(encoder: Slow) -> Iterator[QueryBatcher]:
    made = QueryBatcher(encoder, Metrics())
    yield made
    encoder.may.set()


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
