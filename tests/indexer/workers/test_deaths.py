"""A document that kills whatever encodes it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from encoders.folder import ModelFolder
from indexer import ledger
from indexer.workers.leases import DIED
from tests.conftest import until
from tests.indexer.workers.conftest import Field, records
from tests.servers.redis import RedisServer

ROOT = Path(__file__).parents[3]
_MORTAL = """
import os, signal, sys
from dataclasses import replace
from encoders.console import Console
from indexer.settings import Settings
from indexer.workers import serving
from tests.indexer.counting import CountingEncoder

class Mortal(CountingEncoder):
    def encode_documents(self, documents):
        if any("kills" in document.text for document in documents):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode_documents(documents)

def load(plan, threads):
    encoder = Mortal()
    encoder.spec = replace(encoder.spec, model=sys.argv[2])
    return encoder

serving._load = load
serving._spec_elsewhere = lambda plan: load(plan, 1).spec
plan = serving.Plan(sys.argv[1], None, "cpu", concurrency=2, lease=1.0)
sys.exit(serving.serve(plan, Settings.read(), Console()))
"""


@pytest.mark.slow
def test_a_document_that_kills_its_workers_is_found_and_refused(
    redis: RedisServer, default_folder: ModelFolder, tmp_path: Path
) -> None:
    """A real SIGKILL of the process that encodes, time after time; Celery starts another."""
    field = Field(f"sqlite:///{tmp_path / 'ledger.db'}", redis.url, tmp_path)
    many = records(8)
    many[5]["text"] = "it kills"
    field.write(many)
    run = field.spool().run.id
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DRAGOMAN_HOME": str(field.settings.home),
        "DRAGOMAN_DATABASE": field.settings.database,
        "DRAGOMAN_BROKER": redis.url,
    }
    with (
        closing(field),
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", _MORTAL, str(default_folder.path), field.model],
            env=environment, stdout=log, stderr=log,
        ) as worker,
    ):  # fmt: skip
        try:
            until(lambda: ledger.runs(field.engine, "c")[0].state == "done", 240)
        finally:
            worker.terminate()
        assert worker.wait(60) == 0
        (note,) = ledger.findings(field.engine, [run])
        assert (note.doc_id, note.text) == ("d0005", f"it can't be encoded: {DIED}")
        assert sum(field.store.count().values()) == 7
