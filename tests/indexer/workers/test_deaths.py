"""A document that kills whatever encodes it."""

from contextlib import closing
from pathlib import Path

import pytest

from indexer.ledger import index_runs
from indexer.ledger.findings import findings_of
from indexer.workers.leases import DIED
from indexer.workers.progress import run_progress
from tests.conftest import until
from tests.indexer.workers.conftest import Field, records
from trials.servers.redis import RedisServer


@pytest.mark.parametrize("documents", [2, pytest.param(8, marks=pytest.mark.long)])
def test_a_document_that_kills_its_workers_is_found_and_refused(
    redis: RedisServer, tmp_path: Path, documents: int
) -> None:
    """A real SIGKILL of the process that encodes, time after time; Celery starts another."""
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", redis.url, tmp_path)) as field:
        many = records(documents)
        many[documents * 5 // 8]["text"] = "it kills"
        field.write(many)
        run = field.spool().run.id
        worker = field.act("kills", concurrency=2, lease=1.0)
        until(lambda: index_runs.runs(field.engine, "c")[0].state == "done", 240)
        worker.terminate()
        assert worker.wait(60) == 0
        (note,) = findings_of(field.engine, [run])
        assert (note.doc_id, note.text) == (f"d{documents * 5 // 8:04d}", f"it can't be encoded: {DIED}")
        assert sum(field.store.count().values()) == documents - 1


def test_the_chunk_of_a_worker_that_was_killed_is_another_s(redis: RedisServer, tmp_path: Path) -> None:
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", redis.url, tmp_path)) as field:
        run = field.begin(3)
        worker = field.act("slow", lease=2.0)
        until(lambda: run_progress(field.engine, run).chunks == {"leased": 1})
        worker.kill()
        worker.wait()
        field.act("well", lease=2.0)
        until(lambda: index_runs.runs(field.engine, "c")[0].state == "done")
        assert findings_of(field.engine, [run]) == []
        assert sum(field.store.count().values()) == 3


def test_a_killed_worker_s_successor_goes_on_inside_a_long_document(redis: RedisServer, tmp_path: Path) -> None:
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", redis.url, tmp_path)) as field:
        field.write([{"id": "book", "lang": "en", "text": "word" * 75_000}])
        run = field.spool().run.id
        field.act("tires", concurrency=2, lease=1.0)
        until(lambda: index_runs.runs(field.engine, "c")[0].state == "done", 120)
        assert (field.settings.home / "batches").read_text() == "0 1 2 3 4 5 "
        assert findings_of(field.engine, [run]) == []
        assert sum(field.store.count().values()) == 1
        assert not field.settings.checkpoints("c").exists()
