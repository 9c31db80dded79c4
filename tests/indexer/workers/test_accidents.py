"""One of each accident, to a run on real servers: the store ends as one process leaves it, byte by byte."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import index_runs
from indexer.ledger.findings import findings_of
from indexer.workers.celery_worker import GPU_LANES
from indexer.workers.progress import run_progress
from tests.conftest import fallen, skip_or_fail, until
from tests.indexer.workers.conftest import Field, new_database, records
from trials.servers.elastic import ElasticServer
from trials.servers.postgres import PostgresServer
from trials.servers.process import ServerMissing, ServerProcess, running
from trials.servers.redis import RedisServer
from trials.worker_accidents import BROKERS, Trial, running_servers

COMMON = (
    "a worker killed",
    "the database killed",
    "messages dropped",
    "a worker stopped for longer than its lease",
    "the broker killed",
)
ALSO = {
    "redis": ("Elasticsearch's disk full", "a worker asked to end", "messages doubled"),
    "rabbitmq": ("the publisher killed", "Elasticsearch killed"),
}
CLOCKS = (
    "the database's clock set back, and a worker killed",
    "a worker's clock set",
    "the broker's clock set",
    "the database's clock set",
    "the publisher's clock set",
    "Elasticsearch's clock set",
)


def test_a_worker_goes_on_when_broker_database_and_elasticsearch_were_killed_under_its_chunk(
    killable: ElasticServer, killable_url: str, killable_postgres: PostgresServer, tmp_path: Path
) -> None:
    database = new_database(killable_postgres)
    with running(RedisServer) as broker, closing(Field(database, broker.url, tmp_path, killable_url)) as field:
        run = field.begin(3 * CHUNK_DOCUMENTS)
        worker = field.act("held", lease=3)
        until(lambda: run_progress(field.engine, run).chunks == {"leased": 1, "pending": 2}, 120)
        servers: tuple[ServerProcess, ...] = (broker, killable_postgres, killable)
        for server in servers:
            server.kill()
        field.settings.home.mkdir(exist_ok=True)
        (field.settings.home / "go").touch()
        for server in servers:
            server.start()
        until(lambda: index_runs.runs(field.engine, "c")[0].state == "done", 180)
        field.store.publish()
        assert sorted(field.store.ids()) == [record["id"] for record in records(3 * CHUNK_DOCUMENTS)]
        assert findings_of(field.engine, [run]) == []
        assert worker.poll() is None


@pytest.mark.elastic
@pytest.mark.long
@pytest.mark.parametrize(("broker", "lanes"), [("rabbitmq", 1), ("redis", 1), ("redis", GPU_LANES)])
def test_nothing_is_lost_doubled_or_other_than_it_was(
    broker: str, lanes: int, tmp_path: Path, default_folder: ModelFolder
) -> None:
    """A worker on a CPU has one lane; on a card one encodes while the others read, put and mark."""
    _require_right(broker, tmp_path, (*COMMON, *ALSO[broker]), lanes)


@pytest.mark.elastic
@pytest.mark.long
@pytest.mark.parametrize("broker", sorted(BROKERS))
def test_clocks_that_are_set_back_and_forth_change_nothing(
    broker: str, tmp_path: Path, default_folder: ModelFolder
) -> None:
    _require_right(broker, tmp_path, CLOCKS)


def _require_right(broker: str, folder: Path, kinds: Sequence[str], lanes: int = 1) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a clock that is an hour fast: apt-get install gcc")
    with ExitStack() as stack:
        try:
            servers = stack.enter_context(running_servers(broker))
        except ServerMissing as missing:
            skip_or_fail(str(missing))
        trial = Trial(servers, folder, 640, seed=1, name=f"trial-{broker}-{lanes}", lanes=lanes)
        outcomes = trial.run(kinds)
    assert fallen(outcomes) == []
    assert len(outcomes) == len(kinds)
