"""Sources are read once into the ledger; what workers make of them is what one process makes."""

import gzip
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from encoders.console import Console
from encoders.document import Document, Encoded
from encoders.errors import BadInput, StoreError
from indexer.collection import collection as collections
from indexer.collection import generations
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import collection_lock
from indexer.indexing import pipeline
from indexer.indexing.duplicates import OnDuplicate
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import index_runs, tables
from indexer.ledger.database import connect, open_database, open_engine, transaction, upgrade
from indexer.ledger.findings import findings_of
from indexer.ledger.index_runs import RunLedger, runs
from indexer.ledger.ledger import Ledger
from indexer.ledger.spool import pack, unpack
from indexer.ledger.tables import ABANDONED, DONE, READING, REFUSED, REMARK, Chunk, SeenDocument, Spool
from indexer.readers.records.source import ReadOptions
from indexer.workers import sweeps
from indexer.workers.handout import hand_out_sources
from indexer.workers.run_control import cancel
from tests.conftest import until
from tests.indexer.workers.conftest import Field, new_database, one_document, records
from trials.fake_encoder import FakeEncoder
from trials.servers.postgres import PostgresServer


@pytest.fixture
def database(either_database: str) -> str:
    """The contract holds on both databases."""
    return either_database


@given(
    st.lists(
        st.builds(
            Document,
            doc_id=st.text(min_size=1),
            lang=st.just("en"),
            text=st.text(st.characters(exclude_categories=())),
            title=st.text(),
            fields=st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.lists(st.text()))),
            revision=st.integers(0, 2**60),
        )
    )
)
def test_documents_come_out_of_the_spool_as_they_went_in(documents: list[Document]) -> None:
    assert unpack(pack(documents)) == documents


def end(field: Field) -> None:
    worker = field.worker()
    field.work_off(worker, index_runs.runs(field.engine, "c")[-1].id)
    field.sweep()
    assert index_runs.runs(field.engine, "c")[-1].state == DONE


@pytest.mark.parametrize("on_duplicate", ["last", "first"])
@pytest.mark.parametrize("seed", range(2))
def test_it_ends_as_one_process_ends_however_often_ids_and_revisions_come(
    field: Field, tmp_path: Path, seed: int, on_duplicate: OnDuplicate
) -> None:
    """Three runs over sources that change in between, against the same three runs without workers."""
    chance = random.Random(seed)
    alone = Settings.read(home=tmp_path / "alone")
    store, engine = StoreLocation(alone.store, "c").open(), connect(alone.database)
    for _ in range(3):
        field.write(
            [
                {
                    "id": f"d{chance.randrange(150)}",
                    "lang": "en",
                    "text": f"text {chance.randrange(4)}",
                    "revision": chance.choice((0, 0, 0, 1, 2)),
                }
                for _ in range(4 * CHUNK_DOCUMENTS)
            ]
        )
        field.spool(on_duplicate=on_duplicate)
        end(field)
        report = pipeline.index(
            [str(field.source)], ReadOptions(), field.encoder, store, engine, "c",
            on_duplicate=on_duplicate, console=Console(quiet=True),
        )  # fmt: skip
        by_workers = pipeline.report_of(RunLedger(field.engine, runs(field.engine, "c")[-1]), 0.0)
        doc_ids = {json.loads(line)["id"] for line in field.source.read_text().splitlines()}
        assert by_workers.encoded + by_workers.unchanged == len(doc_ids)
        assert by_workers.duplicates == report.duplicates > 0
        expected, found = (
            [(one.document, one.vector.tobytes()) for page in each.scan(field.model) for one in page]
            for each in (store, field.store)
        )
        assert found == expected
    store.close()
    engine.dispose()


class NotFinite(FakeEncoder):
    """Makes of some texts vectors that are none."""

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        encoded = super().encode_documents(documents)
        encoded.vectors[[at for at, document in enumerate(documents) if "not finite" in document.text]] = np.nan
        return encoded


@pytest.mark.parts
def test_bad_documents_of_every_kind_are_refused_as_one_process_refuses_them(field: Field, tmp_path: Path) -> None:
    good = [json.dumps(record).encode() for record in records(CHUNK_DOCUMENTS)]
    bad = [
        b'{"id": "empty", "text": " "}',
        b'{"id": "long", "lang": "en", "text": "' + b"word " * 1_000_000 + b'"}',
        b"\x00\x01\xff binary",
        '{"id": "latin", "text": "caf\u00e9"}'.encode("latin-1"),
        b'{"id": "torn", "text": ',
        b'{"id": "d0003", "lang": "en", "text": "the id of another"}',
        b'{"id": "blanks and/slashes", "lang": "en", "text": "fine"}',
        b'{"id": "' + b"x" * 600 + b'", "lang": "en", "text": "too long an id"}',
        b'{"id": "language", "lang": "klingonisch", "text": "x"}',
        b'{"id": "nan", "text": "x", "n": NaN}',
        b'{"id": "vector", "lang": "en", "text": "not finite"}',
        b'{"id": "unknown", "lang": "en", "text": "nothing known"}',
    ]
    field.source.write_bytes(b"\n".join([*good, *bad]))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b"".join(b'{"id": "z%d", "text": "in an archive"}\n' % at for at in range(999)))[:-9])
    sources, encoder = [str(field.source), str(cut)], NotFinite()
    encoder.spec = field.encoder.spec
    hand_out_sources(
        sources, ReadOptions(), encoder.spec, field.store, field.engine, "c",
        on_duplicate="last", console=Console(quiet=True),
    )  # fmt: skip
    field.work_off(field.worker(encoder), 1)
    field.sweep()

    alone = Settings.read(home=tmp_path / "alone")
    with closing(StoreLocation(alone.store, "c").open()) as store:
        engine = connect(alone.database)
        pipeline.index(sources, ReadOptions(), encoder, store, engine, "c", on_duplicate="last")
        expected = findings_of(engine, [1])
        assert sorted(field.store.ids()) == sorted(store.ids())
        engine.dispose()
    found = findings_of(field.engine, [1])
    assert Counter(found) == Counter(expected)
    assert len([note for note in found if note.kind == REFUSED]) == len(bad) - 3 + 1  # the archive is cut off
    assert [note.doc_id for note in found if note.kind == REMARK] == ["d0003"]


def test_ids_that_clash_are_refused_and_no_run_is_left_open(field: Field) -> None:
    many = records(CHUNK_DOCUMENTS)
    field.write([*many, *({**record, "text": "another"} for record in many[:2])])
    with pytest.raises(BadInput, match="2 ids stand more than once in the sources: d0000 "):
        field.spool()
    assert [run.state for run in runs(field.engine, "c")] == [ABANDONED]


def test_workers_begin_when_the_sources_are_read_and_an_interrupted_reader_goes_on(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    field.write(records(6 * CHUNK_DOCUMENTS))
    calls = 0
    stamps = field.store.stamps

    def broken(model: str, doc_ids: list[str]) -> object:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise StoreError("the store is away")
        return stamps(model, doc_ids)

    monkeypatch.setattr(field.store, "stamps", broken)
    with pytest.raises(StoreError):
        field.spool()
    run = index_runs.runs(field.engine, "c")[0]
    assert run.state == READING
    assert not field.worker().work(run.id, 0)
    again = field.spool()
    assert (again.resumed, again.run.id, calls) == (True, run.id, 7)
    end(field)
    assert sum(field.store.count().values()) == 6 * CHUNK_DOCUMENTS


def test_while_workers_are_at_a_collection_other_sources_are_refused_and_the_same_are_looked_at(field: Field) -> None:
    run = field.begin(CHUNK_DOCUMENTS)
    assert field.spool().run.id == run
    field.write(records(2))
    with pytest.raises(BadInput, match="workers are at run 1 of collection c; wait for its end"):
        field.spool()
    with pytest.raises(BadInput, match="dragoman cancel -c c"):
        pipeline.index([str(field.source)], ReadOptions(), field.encoder, field.store, field.engine, "c")


def test_what_is_stored_unchanged_is_no_work_and_what_the_sources_lost_is_pruned(field: Field) -> None:
    field.begin(3 * CHUNK_DOCUMENTS)
    end(field)
    field.encoder.encoded.clear()
    field.write(records(2 * CHUNK_DOCUMENTS))
    field.spool(prune=True)
    end(field)
    run = index_runs.runs(field.engine, "c")[-1]
    assert (run.encoded, run.unchanged, run.pruned, field.encoder.encoded) == (0, 128, 64, [])
    assert sum(field.store.count().values()) == 2 * CHUNK_DOCUMENTS


def test_what_keeps_a_workers_run_from_pruning_stands_in_the_workers_log(
    field: Field, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    field.source.write_text("{broken\n")
    field.spool(prune=True)
    end(field)
    assert "nothing is pruned, because" in caplog.text
    assert "nothing is pruned" not in capsys.readouterr().err


def test_a_run_given_up_while_its_sources_are_read_stays_given_up(field: Field) -> None:
    field.write(records(2))
    arguments = (field.engine, "c", [str(field.source)], "mark", field.model, "build-c")
    reading = Ledger.open(*arguments, spooled=True, prune=True)
    reading.plan(one_document(0, "a"), [True], spool=b"")
    cancel(field.engine, "c")
    for go_on in (lambda: reading.plan(one_document(1, "b"), [True], spool=b""), reading.start_workers):
        with pytest.raises(BadInput, match=r"run 1 of collection c was cancelled while its sources were read"):
            go_on()
    assert [run.state for run in runs(field.engine, "c")] == ["cancelled"]
    assert reading.unseen(["a", "b"]) == []
    again = Ledger.open(*arguments, spooled=True)
    assert (again.run.id, again.resumed) == (2, False)


def test_a_run_cancelled_while_it_is_released_stays_cancelled(field: Field) -> None:
    """A cancel right after the first look of start_workers: of the two transactions one waits for the other."""
    field.write(records(2))
    reading = Ledger.open(field.engine, "c", [str(field.source)], "mark", field.model, "build-c", spooled=True)
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
    assert [run.state for run in runs(field.engine, "c")] == ["cancelled"]


def test_pruning_can_be_asked_for_until_workers_begin(field: Field) -> None:
    field.write(records(2))
    arguments = (field.engine, "c", [str(field.source)], "mark", field.model, "build-c")
    Ledger.open(*arguments, spooled=True).plan(one_document(0, "a"), [True], spool=b"")
    again = Ledger.open(*arguments, spooled=True, prune=True)
    again.start_workers()
    assert [run.prune for run in runs(field.engine, "c")] == [True]
    with transaction(field.engine) as session:
        session.execute(sa.update(tables.IndexRun).values(prune=False))
    with pytest.raises(BadInput, match="begun without --prune"):
        Ledger.open(*arguments, spooled=True, prune=True)


def test_of_two_workers_that_end_a_run_the_late_one_changes_nothing(field: Field) -> None:
    field.write(records(CHUNK_DOCUMENTS))
    late = field.spool(prune=True)
    assert late.unseen(["d0000", "gone"]) == ["gone"]
    field.work_off(field.worker(), late.run.id)
    field.sweep()
    (done,) = runs(field.engine, "c")
    sweeps.end_run(field.engine, field.settings, late.run, Console(quiet=True))
    assert sum(field.store.count().values()) == CHUNK_DOCUMENTS
    (still,) = runs(field.engine, "c")
    assert (still.state, still.builds, still.finished) == ("done", done.builds, done.finished)


def test_the_ledger_says_which_build_encoded_how_much_and_keeps_no_text(field: Field) -> None:
    field.begin(CHUNK_DOCUMENTS + 3)
    end(field)
    assert index_runs.runs(field.engine, "c")[-1].builds == {"build-c": CHUNK_DOCUMENTS + 3}
    with transaction(field.engine) as session:
        assert [session.scalars(sa.select(table)).all() for table in (Spool, Chunk, SeenDocument)] == [[], [], []]


def test_a_rebuild_takes_its_place_when_workers_are_done(field: Field) -> None:
    field.begin(CHUNK_DOCUMENTS + 1)
    end(field)
    number = generations.begin(field.engine, "c", field.settings, "fake", field.encoder.spec).number
    first, field.store = field.store, StoreLocation(field.settings.store, "c").open(number)
    first.close()
    field.write(records(5))
    field.spool(generation=number)
    assert collections.require(field.engine, "c").generation == 1
    end(field)
    found = collections.require(field.engine, "c")
    assert (found.generation, found.building) == (2, None)
    with closing(found.open_store(field.settings)) as store:
        assert store.count() == {"en": 5}


def upgraded_database(postgres: PostgresServer) -> str:
    url = new_database(postgres)
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()
    return url


def test_of_two_publishers_on_two_machines_the_second_is_refused_and_the_first_goes_on(
    postgres: PostgresServer,
) -> None:
    url = upgraded_database(postgres)
    _refuse_second(url, url)


def test_of_two_homes_with_one_sqlite_database_only_one_indexes_a_collection(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared' / 'ledger.db'}"
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    _refuse_second(url, url.replace("shared", "link"))


def _refuse_second(first: str, second: str) -> None:
    """Of two processes that index a collection of one database, the second is refused."""
    with open_database(first) as engine, open_database(second) as other:
        with collection_lock("c", engine):
            with pytest.raises(StoreError, match="another process is indexing collection c; wait"):
                collection_lock("c", other).__enter__()
            with collection_lock("d", other):
                pass
        with collection_lock("c", other):
            pass


def test_a_publisher_that_was_killed_leaves_no_lock(postgres: PostgresServer) -> None:
    url = upgraded_database(postgres)
    code = (
        "import sys, time\nfrom indexer.index_sources import collection_lock\n"
        "from indexer.ledger.database import open_engine\n"
        "with collection_lock('c', open_engine(sys.argv[1])):\n"
        "    print('locked', flush=True)\n    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "locked\n"

    def is_free() -> bool:
        try:
            with collection_lock("c", engine):
                return True
        except StoreError:
            return False

    with open_database(url) as engine:
        assert not is_free()
        process.kill()
        process.communicate()
        until(is_free)
