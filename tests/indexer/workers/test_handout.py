"""Sources are read once into the ledger; what workers make of them is what one process makes."""

import random
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from encoders.errors import BadInput, StoreError
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import collection_lock
from indexer.indexing import pipeline
from indexer.indexing.duplicates import OnDuplicate
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import tables
from indexer.ledger.database import connect, open_database, transaction
from indexer.ledger.index_runs import RunLedger
from indexer.ledger.tables import ABANDONED, READING, Chunk, SeenDocument, Spool
from indexer.readers.records.source import ReadOptions
from indexer.workers import sweeps
from indexer.workers.run_control import cancel
from tests.conftest import Capture, Log
from tests.indexer.workers.conftest import QUIET, Field, either_database, one_document, records

database = either_database


@pytest.mark.parametrize(("seed", "on_duplicate"), [(0, "last"), (1, "first")])
def test_it_ends_as_one_process_ends_with_repeated_ids(field: Field, seed: int, on_duplicate: OnDuplicate) -> None:
    """Three runs over sources that change in between, against the same three runs without workers."""
    chance = random.Random(seed)

    def record() -> dict[str, object]:
        text, revision = f"text {chance.randrange(4)}", chance.choice((0, 0, 0, 1, 2))
        return {"id": f"d{chance.randrange(80)}", "lang": "en", "text": text, "revision": revision, "n": ["é", 1]}

    with field.alone() as (store, engine):
        for _ in range(3):
            drawn = [record() for _ in range(2 * CHUNK_DOCUMENTS)]
            field.write(drawn)
            field.spool(on_duplicate=on_duplicate)
            field.end()
            report = pipeline.index(
                [str(field.source)], ReadOptions(), field.encoder, store, engine, "c",
                on_duplicate=on_duplicate, console=QUIET,
            )  # fmt: skip
            by_workers = pipeline.report_of(RunLedger(field.engine, field.runs()[-1]), 0.0)
            assert by_workers.encoded + by_workers.unchanged == len({one["id"] for one in drawn})
            assert by_workers.duplicates == report.duplicates > 0
            expected, found = (
                [(one.document, one.vector.tobytes()) for page in each.scan(field.model) for one in page]
                for each in (store, field.store)
            )
            assert found == expected


def test_ids_that_clash_are_refused_and_no_run_is_left_open(field: Field) -> None:
    many = records(CHUNK_DOCUMENTS)
    field.write([*many, *({**record, "text": "another"} for record in many[:2])])
    with pytest.raises(BadInput, match="2 ids stand more than once in the sources: d0000 "):
        field.spool()
    assert field.states() == [ABANDONED]


def test_an_interrupted_reader_goes_on_and_then_workers_begin(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    field.write(records(6 * CHUNK_DOCUMENTS))
    stamps, calls = field.store.stamps, list[Sequence[str]]()

    def broken(model: str, doc_ids: Sequence[str]) -> object:
        calls.append(doc_ids)
        if len(calls) == 4:
            raise StoreError("the store is away")
        return stamps(model, doc_ids)

    monkeypatch.setattr(field.store, "stamps", broken)
    with pytest.raises(StoreError):
        field.spool()
    (run,) = field.runs()
    assert run.state == READING
    assert not field.worker().work(run.id, 0)
    again = field.spool()
    assert (again.resumed, again.run.id, len(calls)) == (True, run.id, 7)
    field.end()
    assert field.size() == 6 * CHUNK_DOCUMENTS


def test_while_workers_are_at_a_collection_other_sources_are_refused_and_the_same_are_looked_at(field: Field) -> None:
    run = field.begin(CHUNK_DOCUMENTS)
    assert field.spool().run.id == run
    field.write(records(2))
    with pytest.raises(BadInput, match="workers are at run 1 of collection c; wait for its end"):
        field.spool()
    with pytest.raises(BadInput, match="dragoman cancel -c c"):
        pipeline.index([str(field.source)], ReadOptions(), field.encoder, field.store, field.engine, "c")


def test_what_is_unchanged_is_no_work_and_what_the_sources_lost_is_pruned(field: Field) -> None:
    field.begin(CHUNK_DOCUMENTS + 3)
    field.end()
    assert field.runs()[-1].builds == {"build-c": CHUNK_DOCUMENTS + 3}
    with transaction(field.engine) as session:
        assert [session.scalars(sa.select(table)).all() for table in (Spool, Chunk, SeenDocument)] == [[], [], []]
    field.encoder.encoded.clear()
    field.write(records(CHUNK_DOCUMENTS))
    field.spool(prune=True)
    field.end()
    run = field.runs()[-1]
    assert (run.encoded, run.unchanged, run.pruned, field.encoder.encoded) == (0, CHUNK_DOCUMENTS, 3, [])
    assert field.size() == CHUNK_DOCUMENTS


def test_pruning_that_is_kept_back_is_said_in_the_log(field: Field, caplog: Log, capsys: Capture) -> None:
    field.source.write_text("{broken\n")
    field.spool(prune=True)
    field.end()
    assert "nothing is pruned, because" in caplog.text
    assert "nothing is pruned" not in capsys.readouterr().err


def test_a_run_given_up_while_its_sources_are_read_stays_given_up(field: Field) -> None:
    field.write(records(2))
    reading = field.reading(prune=True)
    reading.plan(one_document(0, "a"), [True], spool=b"")
    cancel(field.engine, "c")
    for go_on in (lambda: reading.plan(one_document(1, "b"), [True], spool=b""), reading.start_workers):
        with pytest.raises(BadInput, match=r"run 1 of collection c was cancelled while its sources were read"):
            go_on()
    assert (field.states(), reading.unseen(["a", "b"])) == (["cancelled"], [])
    again = field.reading()
    assert (again.run.id, again.resumed) == (2, False)


def test_a_run_cancelled_while_it_is_released_stays_cancelled(field: Field) -> None:
    """A cancel right after the first look of start_workers: of the two transactions one waits for the other."""
    field.write(records(2))
    reading = field.reading()
    reading.plan(one_document(0, "a"), [True], spool=b"")
    other = connect(field.settings.database)
    cancelling = threading.Thread(target=cancel, args=(other, "c"))

    @sa.event.listens_for(field.engine, "after_cursor_execute", once=True)
    def cut_in(*_: object) -> None:
        cancelling.start()
        cancelling.join(0.5)

    reading.start_workers()
    cancelling.join()
    other.dispose()
    assert field.states() == ["cancelled"]


def test_pruning_can_be_asked_for_until_workers_begin(field: Field) -> None:
    field.write(records(2))
    field.reading().plan(one_document(0, "a"), [True], spool=b"")
    field.reading(prune=True).start_workers()
    assert [run.prune for run in field.runs()] == [True]
    with transaction(field.engine) as session:
        session.execute(sa.update(tables.IndexRun).values(prune=False))
    with pytest.raises(BadInput, match="begun without --prune"):
        field.reading(prune=True)


def test_of_two_workers_that_end_a_run_the_late_one_changes_nothing(field: Field) -> None:
    field.write(records(3))
    late = field.spool(prune=True)
    assert late.unseen(["d0000", "gone"]) == ["gone"]
    field.end()
    (done,) = field.runs()
    sweeps.end_run(field.engine, field.settings, late.run, QUIET)
    assert field.size() == 3
    (still,) = field.runs()
    assert (still.state, still.builds, still.finished) == ("done", done.builds, done.finished)


def test_a_rebuild_takes_its_place_when_workers_are_done(field: Field) -> None:
    field.begin(6)
    field.end()
    number = generations.begin(field.engine, "c", field.settings, "fake", field.encoder.spec).number
    field.store.close()
    field.store = StoreLocation(field.settings.store, "c").open(number)
    field.write(records(5))
    field.spool(generation=number)
    assert collections.require(field.engine, "c").generation == 1
    field.end()
    found = collections.require(field.engine, "c")
    assert (found.generation, found.building) == (2, None)
    with closing(found.open_store(field.settings)) as store:
        assert store.count() == {"en": 5}


def test_of_two_publishers_with_one_database_the_second_is_refused(field: Field, database: str, tmp_path: Path) -> None:
    """On two machines, or in two homes with one SQLite database, which they name by two paths."""
    (tmp_path / "link").symlink_to(tmp_path)
    with open_database(database.replace(f"{tmp_path}/", f"{tmp_path}/link/")) as other:
        with (
            collection_lock("c", field.engine),
            collection_lock("d", other),
            pytest.raises(StoreError, match="another process is indexing collection c; wait"),
        ):
            collection_lock("c", other).__enter__()
        with collection_lock("c", other):
            pass
