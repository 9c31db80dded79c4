"""A document that kills whatever encodes it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from indexer import ledger
from indexer.workers.leases import DIED
from tests.conftest import until
from tests.indexer.workers.conftest import Field, records
from tests.servers.redis import RedisServer


@pytest.mark.long
def test_a_document_that_kills_its_workers_is_found_and_refused(redis: RedisServer, tmp_path: Path) -> None:
    """A real SIGKILL of the process that encodes, time after time; Celery starts another."""
    with closing(Field(f"sqlite:///{tmp_path / 'ledger.db'}", redis.url, tmp_path)) as field:
        many = records(8)
        many[5]["text"] = "it kills"
        field.write(many)
        run = field.spool().run.id
        worker = field.act("kills", concurrency=2, lease=1.0)
        until(lambda: ledger.runs(field.engine, "c")[0].state == "done", 240)
        worker.terminate()
        assert worker.wait(60) == 0
        (note,) = ledger.findings(field.engine, [run])
        assert (note.doc_id, note.text) == ("d0005", f"it can't be encoded: {DIED}")
        assert sum(field.store.count().values()) == 7
