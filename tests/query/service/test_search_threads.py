"""Threads for searches: what they refuse, and what they leave as it is."""

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from encoders.inference.graph import GpuFailure, GpuFull
from indexer.collection.settings import Settings
from query.service.refusals import Refused
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions


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
    assert isinstance(answer, TimeoutError)
    assert str(answer) == "the server did not answer"
    assert late == 0


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
