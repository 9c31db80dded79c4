"""One of each accident, to a run on real servers: the store ends as one process leaves it, byte by byte."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.worker_accidents import BROKERS, Servers, Trial
from encoders.folder import ModelFolder
from tests.conftest import skip_or_fail
from tests.servers.elastic import ElasticServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerMissing, running

COMMON = (
    "a worker killed",
    "the database killed",
    "messages dropped",
    "a worker stopped for longer than its lease",
    "the broker killed",
)
ALSO = {
    "redis": ("messages doubled", "a worker asked to end"),
    "rabbitmq": ("the publisher killed", "Elasticsearch killed"),
}


@pytest.mark.long
@pytest.mark.parametrize("broker", sorted(BROKERS))
def test_nothing_is_lost_doubled_or_other_than_it_was(broker: str, tmp_path: Path, default_folder: ModelFolder) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a clock that is an hour fast: apt-get install gcc")
    with ExitStack() as stack:
        try:
            servers = Servers(
                stack.enter_context(running(BROKERS[broker])),
                stack.enter_context(running(PostgresServer)),
                stack.enter_context(running(ElasticServer)),
            )
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        trial = Trial(servers, tmp_path, 640, seed=1, name=f"trial-{broker}")
        outcome = trial.run((*COMMON, *ALSO[broker]), (0.2, 1.0))
    assert (outcome.lost, outcome.doubled, outcome.different, outcome.findings) == ([], 0, [], [])
    assert outcome.happened.total() == len(COMMON) + 2
