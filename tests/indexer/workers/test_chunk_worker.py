"""What befalls one worker: poison, servers that go away, strangers' chunks."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoded
from encoders.errors import MissingPart, StoreError
from indexer.collection import collection as collections
from indexer.collection.store_location import StoreLocation
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import index_runs
from indexer.ledger.database import transaction
from indexer.ledger.findings import findings_of
from indexer.ledger.tables import CANCELLED, DONE, PENDING, Chunk, Spool
from indexer.readers.records.source import ReadOptions
from indexer.workers import chunk_worker, registry
from indexer.workers.chunk_worker import ChunkWorker
from indexer.workers.handout import hand_out_sources
from indexer.workers.leases import MOST_ATTEMPTS
from indexer.workers.progress import Rate, run_progress
from indexer.workers.run_control import cancel
from indexer.workers.worker_metrics import Metrics
from query.cli import run as run_command
from tests.conftest import until
from tests.indexer.workers.conftest import Field, new_database, records
from trials.fake_encoder import FakeEncoder
from trials.servers.postgres import PostgresServer
from trials.servers.redis import RedisServer


class Counted(Metrics):
    """What Prometheus would be told."""

    def __init__(self) -> None:
        self.documents = self.refused = 0

    def stored(self, documents: int, refused: int) -> None:
        self.documents += documents
        self.refused += refused


class Poisoned(FakeEncoder):
    """Breaks on some documents, each in its way."""

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        if any("breaks" in document.text for document in documents):
            raise ValueError("a graph that met a text it can't bear")
        encoded = super().encode_documents(documents)
        nan = [at for at, document in enumerate(documents) if "nan" in document.text]
        encoded.vectors[nan] = np.nan
        return encoded


def test_poison_is_refused_with_its_reason_and_everything_else_is_stored(field: Field) -> None:
    many = records(2 * CHUNK_DOCUMENTS)
    many[5]["text"], many[70]["text"], many[90]["text"] = "breaks", "nan", "nothing known"
    field.write(many)
    run = field.spool().run.id
    poisoned = Poisoned()
    poisoned.spec = field.encoder.spec
    counted = Counted()
    field.work_off(field.worker(poisoned, metrics=counted), run)
    field.sweep()
    assert index_runs.runs(field.engine, "c")[0].state == "done"
    notes = findings_of(field.engine, [run])
    assert {note.doc_id: note.text for note in notes} == {
        "d0005": "it can't be encoded: ValueError: a graph that met a text it can't bear",
        "d0070": "its vector has numbers that are not finite",
        "d0090": "it has nothing the encoder knows",
    }
    assert sum(field.store.count().values()) == 2 * CHUNK_DOCUMENTS - 3
    assert (counted.documents, counted.refused) == (2 * CHUNK_DOCUMENTS - 3, 3)
    assert index_runs.runs(field.engine, "c")[0].builds == {"build-c": 2 * CHUNK_DOCUMENTS - 3}


def test_an_error_that_no_database_can_write_is_written_without_what_it_can_t(field: Field) -> None:
    class Verbose(FakeEncoder):
        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            if any("nul" in document.text for document in documents):
                raise ValueError("at \0 and half of \ud83d, " + "x" * 10_000)
            return super().encode_documents(documents)

    field.write([*records(3), {"id": "n", "lang": "en", "text": "nul"}])
    run = field.spool().run.id
    verbose = Verbose()
    verbose.spec = field.encoder.spec
    field.work_off(field.worker(verbose), run)
    (note,) = findings_of(field.engine, [run])
    assert note.doc_id == "n"
    assert note.text.startswith("it can't be encoded: ValueError: at \N{REPLACEMENT CHARACTER} and half of ?, xxx")
    assert len(note.text) < 600


def test_an_outage_that_is_over_is_no_worker_s_last_error(
    killable_postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    with closing(Field(new_database(killable_postgres), redis.url, tmp_path)) as field:
        run = field.begin(3)
        at_work = field.worker(lease=2.0)
        field.work_off(at_work, run)
        killable_postgres.kill()
        with ThreadPoolExecutor() as aside:
            looking = aside.submit(at_work.work, run, 0)  # there is no chunk left to be done
            until(lambda: bool(at_work._trouble))
            killable_postgres.start()
            assert not looking.result(60)
        until(lambda: [one.error for one in registry.alive(field.engine)] == [""])


def test_one_worker_puts_each_collection_s_documents_into_its_own_store(field: Field) -> None:
    at_work = field.worker()
    expected = {"a": 3, "b": 5}
    for name, count in expected.items():
        finished(field, at_work, name, count)
    assert {name: stored(field, name) for name in expected} == {
        name: [f"{name}{at}" for at in range(count)] for name, count in expected.items()
    }


def test_a_collection_deleted_and_indexed_again_is_written_into_its_new_store(field: Field) -> None:
    at_work = field.worker()
    for count in (3, 5, 2):
        finished(field, at_work, "a", count)
        assert stored(field, "a") == [f"a{at}" for at in range(count)]
        collections.remove(field.engine, collections.require(field.engine, "a"), field.settings)


def test_a_worker_keeps_few_stores_open_however_many_collections_it_works_on(field: Field, tmp_path: Path) -> None:
    at_work = field.worker()
    for number in range(12):
        finished(field, at_work, f"c{number}", 1)
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    open_stores = {Path(link).name for link in links if link.startswith(str(tmp_path)) and link.endswith(".db")}
    assert "c11.db" in open_stores
    assert not open_stores & {f"c{number}.db" for number in range(8)}


def finished(field: Field, at_work: ChunkWorker, name: str, count: int) -> None:
    """A run of some documents into a new collection, by one worker."""
    run = begun(field, name, count)
    field.work_off(at_work, run)
    assert field.sweep() == [run]


def begun(field: Field, name: str, count: int) -> int:
    collections.register(field.engine, name, field.settings, "fake", field.encoder.spec)
    field.write([{"id": f"{name}{at}", "lang": "en", "text": f"text {at} of {name}"} for at in range(count)])
    with closing(StoreLocation(field.settings.store, name).open()) as store:
        return hand_out_sources(
            [str(field.source)], ReadOptions(), field.encoder.spec, store, field.engine, name,
            console=Console(quiet=True),
        ).run.id  # fmt: skip


def stored(field: Field, name: str) -> list[str]:
    with closing(collections.require(field.engine, name).open_store(field.settings)) as store:
        return sorted(store.ids())


def test_a_store_that_fails_counts_against_no_document(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_worker, "_PAUSE", 0.0)
    run = field.begin(3)
    at_work = field.worker()
    at_work.work(run, 0)  # the store is open now
    field.write(records(5))
    field.sweep()
    run = field.spool().run.id

    def broken(*_: object) -> object:
        raise StoreError("the disk is full")

    ((_, store),) = at_work._stores.values()
    with monkeypatch.context() as patched:
        patched.setattr(store, "put", broken)
        for _ in range(10):
            assert at_work.work(run, 0)
    with transaction(field.engine) as session:
        chunk = session.scalars(sa.select(Chunk)).one()
    assert (chunk.state, chunk.attempts, chunk.error) == (PENDING, 0, "the disk is full")
    field.work_off(at_work, run)
    assert sum(field.store.count().values()) == 5


def test_a_chunk_whose_documents_got_lost_is_not_taken_for_done(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_worker, "_PAUSE", 0.0)
    run = field.begin(3)
    with transaction(field.engine) as session:
        session.execute(sa.delete(Spool))
    at_work = field.worker()
    for _ in range(MOST_ATTEMPTS + 2):
        assert at_work.work(run, 0)
    seen = run_progress(field.engine, run)
    assert (seen.chunks, seen.run.state) == ({"pending": 1}, "running")
    assert any("its documents are not in the ledger's database any more" in error for error in seen.errors)


def test_a_worker_that_encodes_nothing_any_more_refuses_no_document(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ill(FakeEncoder):
        error: Exception = RuntimeError("CUDA failure 719: unspecified launch failure")

        def encode_documents(self, documents: Sequence[Document]) -> Encoded:  # noqa: ARG002
            raise self.error

    monkeypatch.setattr(chunk_worker, "_PAUSE", 0.0)
    run = field.begin(3)
    ill = Ill()
    ill.spec = field.encoder.spec
    at_work = field.worker(ill)
    for error in (ill.error, MissingPart("there is no CUDA any more")):
        ill.error = error
        for _ in range(10):
            assert at_work.work(run, 0)
        with transaction(field.engine) as session:
            chunk = session.scalars(sa.select(Chunk)).one()
        assert (chunk.state, chunk.attempts) == (PENDING, 0)
        assert str(error) in chunk.error
    assert at_work.failures_in_a_row == 20
    field.work_off(field.worker(), run)
    assert sum(field.store.count().values()) == 3


def test_a_chunk_of_another_model_goes_to_its_own_workers_and_it_is_said_once(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    run = field.begin(3 * CHUNK_DOCUMENTS)
    stranger = FakeEncoder()
    stranger.spec = replace(stranger.spec, model="another")
    other = field.worker(stranger)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert not other.work(run, number)
    assert field.hints.waiting(field.model) == 3
    assert [record.getMessage() for record in caplog.records if "logged once" in record.getMessage()] == [
        f"collection c holds vectors of model {field.model}, and this worker makes vectors of model another: it leaves "
        "the run to other workers (logged once); start one that matches: dragoman worker -c c"
    ]
    assert stranger.encoded == []


def test_a_worker_that_gets_no_message_says_of_which_runs_it_has_no_part(
    field: Field, caplog: pytest.LogCaptureFixture
) -> None:
    field.begin(3)
    stranger = FakeEncoder()
    stranger.spec = replace(stranger.spec, model="another")
    with caplog.at_level(logging.WARNING):
        field.worker(stranger, lease=1.0)
        until(lambda: "start one that matches: dragoman worker -c c" in caplog.text)


def test_a_run_whose_end_fails_keeps_no_other_from_ending(field: Field, caplog: pytest.LogCaptureFixture) -> None:
    at_work = field.worker()
    runs = {}
    for name in ("broken", "whole"):
        runs[name] = begun(field, name, 2)
        field.work_off(at_work, runs[name])
    StoreLocation(field.settings.store, "broken").drop()
    with caplog.at_level(logging.WARNING):
        assert field.sweep() == [runs["whole"]]
    assert "the run's end failed: the store" in caplog.text
    assert [index_runs.runs(field.engine, name)[0].state for name in runs] == ["running", "done"]


def test_another_build_of_the_same_model_is_welcome_and_written_down(
    field: Field, capsys: pytest.CaptureFixture[str]
) -> None:
    run = field.begin(2 * CHUNK_DOCUMENTS)
    halved = FakeEncoder()
    halved.spec = replace(field.encoder.spec, build="build-fp16")
    assert field.worker().work(run, 0)
    assert field.worker(halved).work(run, 1)
    field.sweep()
    assert index_runs.runs(field.engine, "c")[0].builds == {"build-c": 64, "build-fp16": 64}
    assert (
        run_command(["status", "-c", "c", "--home", str(field.settings.home), "--database", field.settings.database])
        == 0
    )
    assert "builds of the model: 64 by build-c, 64 by build-fp16" in capsys.readouterr().out


def test_a_worker_shows_life_while_it_encodes_and_a_busy_one_keeps_its_chunk(field: Field) -> None:
    class Slow(FakeEncoder):
        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            until(lambda: [alive.chunk for alive in run_progress(field.engine, run).workers] == [0])
            first = chunk_until()
            until(lambda: chunk_until() > first + 1.0)  # longer than the lease that it was taken with
            return super().encode_documents(documents)

    def chunk_until() -> float:
        with transaction(field.engine) as session:
            return session.scalars(sa.select(Chunk.until)).one()

    run = field.begin(3)
    slow = Slow()
    slow.spec = field.encoder.spec
    at_work = field.worker(slow, lease=1.0)
    assert at_work.work(run, 0)
    assert index_runs.runs(field.engine, "c")[0].encoded == 3
    at_work.close()
    assert registry.alive(field.engine) == []


def test_how_a_run_stands_is_told_by_the_ledger(field: Field) -> None:
    run = field.begin(3 * CHUNK_DOCUMENTS)
    field.worker().work(run, 0)
    seen = run_progress(field.engine, run)
    assert (seen.chunks, seen.documents, seen.done) == ({"done": 1, "pending": 2}, 192, 64)


@pytest.mark.parametrize("end", [DONE, CANCELLED])
def test_a_run_that_is_over_shows_what_it_stored_and_no_rate_below_zero(field: Field, end: str) -> None:
    field.write([*records(CHUNK_DOCUMENTS), {"id": "d9", "lang": "en", "text": "nothing known"}])
    run = field.spool().run.id
    rate = Rate()
    field.work_off(field.worker(), run)
    before = run_progress(field.engine, run)
    rate(before.done)
    if end == DONE:
        field.sweep()
    else:
        cancel(field.engine, "c")
    after = run_progress(field.engine, run)
    assert (before.documents, before.done) == (CHUNK_DOCUMENTS, CHUNK_DOCUMENTS)
    assert after.run.builds == {"build-c": CHUNK_DOCUMENTS}
    assert (after.run.state, after.documents, after.done) == (end, CHUNK_DOCUMENTS, CHUNK_DOCUMENTS)
    assert rate(after.done) == 0.0
