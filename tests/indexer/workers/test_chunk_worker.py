"""What befalls one worker: poison, servers that go away, strangers' chunks."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import sqlalchemy as sa

from encoders import zstd
from encoders.document import Document, Encoded
from encoders.errors import MissingPart, StoreError
from indexer.collection import collection as collections
from indexer.collection.store_location import StoreLocation
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import index_runs
from indexer.ledger.database import transaction
from indexer.ledger.tables import PENDING, Chunk, Spool
from indexer.readers.records.source import ReadOptions
from indexer.workers import chunk_worker, registry
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.handout import hand_out_sources
from indexer.workers.leases import MOST_ATTEMPTS
from indexer.workers.run_watch import run_progress
from indexer.workers.worker_metrics import Metrics
from query.cli import run as run_command
from tests.conftest import Log, until
from tests.indexer.workers.conftest import QUIET, Field, Poisoned, new_database, records
from trials.fake_encoder import FakeEncoder
from trials.servers.postgres import PostgresServer
from trials.servers.redis import RedisServer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that goes back is taken again without a pause."""
    monkeypatch.setattr(chunk_worker, "_PAUSE", 0.0)


@pytest.fixture
def stranger() -> FakeEncoder:
    made = FakeEncoder()
    made.spec = replace(made.spec, model="another")
    return made


def the_chunk(field: Field) -> Chunk:
    with transaction(field.engine) as session:
        return session.scalars(sa.select(Chunk)).one()


def test_poison_is_refused_with_its_reason_and_everything_else_is_stored(field: Field) -> None:
    many = records(2 * CHUNK_DOCUMENTS)
    poison = {5: "breaks", 7: "too much", 70: "nan", 90: "nothing known", 100: "an error that no database writes"}
    for number, text in poison.items():
        many[number]["text"] = text
    field.write(many)
    run, counted = field.spool().run.id, Mock(Metrics)
    field.work_off(field.worker(field.like(Poisoned), metrics=counted), run)
    field.sweep()
    assert field.states() == ["done"]
    notes = {note.doc_id: note.text for note in field.notes()}
    unwritable = notes.pop("d0100")
    assert unwritable.startswith("it can't be encoded: ValueError: at \N{REPLACEMENT CHARACTER} and half of ?, xxx")
    assert len(unwritable) < 600
    assert notes == {
        "d0005": "it can't be encoded: ValueError: a graph that met a text it can't bear",
        "d0007": "it can't be encoded: GraphFailure: the graph can't be run over it",
        "d0070": "its vector has numbers that are not finite",
        "d0090": "it has nothing the encoder knows",
    }
    stored = 2 * CHUNK_DOCUMENTS - 5
    told = np.sum([call.args for call in counted.stored.call_args_list], axis=0)
    assert ((field.size(), *told), field.runs()[0].builds) == ((stored, stored, 5), {"build-c": stored})


def test_documents_of_another_version_wait_for_its_worker_and_are_never_refused(field: Field) -> None:
    run = field.begin(3)
    with transaction(field.engine) as session:
        spool = session.scalars(sa.select(Spool)).one()
        ours = spool.documents
        assert b"place" not in zstd.decompress(ours)  # a worker of 0.1.0 knows no such field
        spool.documents = zstd.compress(zstd.decompress(ours).replace(b'"title"', b'"of a later version": 1, "title"'))
    for _ in range(MOST_ATTEMPTS + 1):
        assert field.worker().work(run, 0)
    chunk = the_chunk(field)
    assert (chunk.state, chunk.attempts, chunk.error[:29]) == (PENDING, 0, "its documents can't be read: ")
    with transaction(field.engine) as session:
        session.scalars(sa.select(Spool)).one().documents = ours
    field.end()
    assert (field.size(), field.notes()) == (3, [])


def test_an_ended_outage_is_no_error(killable_postgres: PostgresServer, redis: RedisServer, tmp_path: Path) -> None:
    with closing(Field(new_database(killable_postgres), redis.url, tmp_path)) as field:
        run, at_work = field.begin(3), field.worker(lease=2.0)
        field.work_off(at_work, run)
        killable_postgres.kill()
        with ThreadPoolExecutor() as aside:
            looking = aside.submit(at_work.work, run, 0)  # there is no chunk left to be done
            until(lambda: bool(at_work._trouble))
            killable_postgres.start()
            assert not looking.result(60)
        until(lambda: [one.error for one in registry.alive(field.engine)] == [""])


def finished(field: Field, at_work: ChunkWorker, name: str, count: int) -> None:
    """A run of some documents into a new collection, by one worker."""
    run = begun(field, name, count)
    field.work_off(at_work, run)
    assert field.sweep() == [run]


def begun(field: Field, name: str, count: int) -> int:
    collections.register(field.engine, name, field.settings, "fake", field.encoder.spec)
    field.write([{"id": f"{name}{at}", "lang": "en", "text": f"text {at} of {name}"} for at in range(count)])
    source, spec = [str(field.source)], field.encoder.spec
    with closing(StoreLocation(field.settings.store, name).open()) as store:
        return hand_out_sources(source, ReadOptions(), spec, store, field.engine, name, console=QUIET).run.id


def test_one_worker_puts_each_collection_s_documents_into_its_own_store_also_if_it_is_a_new_one(field: Field) -> None:
    at_work = field.worker()
    for name, count in (("a", 3), ("b", 5), ("a", 2)):
        finished(field, at_work, name, count)
        with closing(collections.require(field.engine, name).open_store(field.settings)) as store:
            assert sorted(store.ids()) == [f"{name}{at}" for at in range(count)]
        if name == "b":
            collections.remove(field.engine, collections.require(field.engine, "a"), field.settings)


def test_a_worker_keeps_few_stores_open(field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_worker, "_MAX_STORES", 2)
    at_work = field.worker()
    for number in range(4):
        finished(field, at_work, f"c{number}", 1)
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    open_stores = {Path(link).name for link in links if link.startswith(str(tmp_path)) and link.endswith(".db")}
    assert "c3.db" in open_stores
    assert not open_stores & {"c0.db", "c1.db"}


def test_a_store_that_fails_counts_against_no_document(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    run, at_work = field.begin(3), field.worker()
    at_work.work(run, 0)  # the store is open now
    field.sweep()
    run = field.begin(5)

    def broken(*_: object) -> object:
        raise StoreError("the disk is full")

    ((_, store),) = at_work._stores.values()
    with monkeypatch.context() as patched:
        patched.setattr(store, "put", broken)
        for _ in range(10):
            assert at_work.work(run, 0)
    chunk = the_chunk(field)
    assert (chunk.state, chunk.attempts, chunk.error) == (PENDING, 0, "the disk is full")
    field.work_off(at_work, run)
    assert field.size() == 5


def test_a_chunk_whose_documents_got_lost_is_not_taken_for_done(field: Field) -> None:
    run = field.begin(3)
    with transaction(field.engine) as session:
        session.execute(sa.delete(Spool))
    at_work = field.worker()
    for _ in range(MOST_ATTEMPTS + 2):
        assert at_work.work(run, 0)
    seen = run_progress(field.engine, run)
    assert (seen.chunks, seen.run.state) == ({"pending": 1}, "running")
    assert any("its documents are not in the ledger's database any more" in error for error in seen.errors)


def test_a_worker_that_encodes_nothing_any_more_refuses_no_document(field: Field) -> None:
    class Ill(FakeEncoder):
        error: Exception = RuntimeError("CUDA failure 719: unspecified launch failure")

        def encode_documents(self, documents: Sequence[Document]) -> Encoded:  # noqa: ARG002
            raise self.error

    run, ill = field.begin(3), field.like(Ill)
    at_work = field.worker(ill)
    for error in (ill.error, MissingPart("there is no CUDA any more")):
        ill.error = error
        for _ in range(10):
            assert at_work.work(run, 0)
        chunk = the_chunk(field)
        assert (chunk.state, chunk.attempts) == (PENDING, 0)
        assert str(error) in chunk.error
    assert at_work.failures_in_a_row == 20
    field.work_off(field.worker(), run)
    assert field.size() == 3


def test_another_model_s_chunk_goes_to_its_own_workers(field: Field, stranger: FakeEncoder, caplog: Log) -> None:
    run, other = field.begin(3 * CHUNK_DOCUMENTS), field.worker(stranger)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert not other.work(run, number)
    assert field.hints.waiting(field.model) == 3
    assert [record.getMessage() for record in caplog.records if "logged once" in record.getMessage()] == [
        f"collection c holds vectors of model {field.model}, and this worker makes vectors of model another: it leaves "
        "the run to other workers (logged once); start one that matches: dragoman worker -c c"
    ]
    assert stranger.encoded == []


def test_a_worker_without_messages_says_what_it_leaves(field: Field, stranger: FakeEncoder, caplog: Log) -> None:
    field.begin(3)
    with caplog.at_level(logging.WARNING):
        field.worker(stranger, lease=1.0)
        until(lambda: "start one that matches: dragoman worker -c c" in caplog.text)


def test_a_run_whose_end_fails_keeps_no_other_from_ending(field: Field, caplog: Log) -> None:
    at_work, runs = field.worker(), {name: begun(field, name, 2) for name in ("broken", "whole")}
    for run in runs.values():
        field.work_off(at_work, run)
    StoreLocation(field.settings.store, "broken").drop()
    with caplog.at_level(logging.WARNING):
        assert field.sweep() == [runs["whole"]]
    assert "the run's end failed: the store" in caplog.text
    assert [index_runs.runs(field.engine, name)[0].state for name in runs] == ["running", "done"]


def test_another_build_of_the_model_is_welcome_and_noted(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    run, halved = field.begin(2 * CHUNK_DOCUMENTS), FakeEncoder()
    halved.spec = replace(field.encoder.spec, build="build-fp16")
    assert field.worker().work(run, 0)
    assert field.worker(halved).work(run, 1)
    field.sweep()
    assert field.runs()[0].builds == {"build-c": 64, "build-fp16": 64}
    place = ["--home", str(field.settings.home), "--database", field.settings.database]
    assert run_command(["status", "-c", "c", *place]) == 0
    assert "builds of the model: 64 by build-c, 64 by build-fp16" in capsys.readouterr().out


def test_a_worker_shows_life_while_it_encodes_and_a_busy_one_keeps_its_chunk(field: Field) -> None:
    class Slow(FakeEncoder):
        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            until(lambda: [alive.chunk for alive in run_progress(field.engine, run).workers] == [0])
            first = the_chunk(field).until
            until(lambda: the_chunk(field).until > first + lease)  # longer than the lease that it was taken with
            return super().encode_documents(documents)

    run, lease = field.begin(3), 0.5
    at_work = field.worker(field.like(Slow), lease=lease)
    assert at_work.work(run, 0)
    assert field.runs()[0].encoded == 3
    at_work.close()
    assert registry.alive(field.engine) == []
