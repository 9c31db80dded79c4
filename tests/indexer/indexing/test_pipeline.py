"""Indexing streams, resumes without loss, and encodes nothing twice."""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoded
from encoders.errors import BadInput, ModelMismatch, StoreError
from encoders.folder.model_folder import ModelFolder
from encoders.inference.batch_checkpoint import current_checkpoint
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.index_sources import _IndexRequest, index
from indexer.indexing import encoding_queue, pipeline
from indexer.indexing.duplicates import OnDuplicate
from indexer.indexing.pipeline import IndexReport
from indexer.indexing.reading import CHUNK_DOCUMENTS, read_chunks, readings
from indexer.ledger import index_runs
from indexer.ledger.database import connect, open_database
from indexer.ledger.findings import findings_of
from indexer.readers.records.record import TEXT_LIMIT
from indexer.readers.records.source import ReadOptions
from tests.conftest import fallen, skip_or_fail, until
from tests.indexer.workers.conftest import QUIET, Field, records
from trials import ROOT
from trials.command_attacks import chunk_states
from trials.fake_encoder import FakeEncoder
from trials.power_loss import kills_while_indexing


class Bench(Field):
    def index(
        self, *others: str, prune: bool = False, on_duplicate: OnDuplicate = "error", console: Console = QUIET
    ) -> IndexReport:
        return pipeline.index(
            [str(self.source), *others], ReadOptions(), self.encoder, self.store, self.engine, "c", prune=prune,
            on_duplicate=on_duplicate, checkpoints=self.settings.checkpoints("c"), console=console,
        )  # fmt: skip

    def break_off(self, after: int) -> None:
        """Begin a run that breaks when so many more documents are encoded."""
        self.encoder.broken_at = len(self.encoder.encoded) + after
        with pytest.raises(RuntimeError, match="power"):
            self.index()
        self.encoder.broken_at = -1
        self.encoder.encoded.clear()


@pytest.fixture
def bench(settings: Settings, tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(settings.database, "", tmp_path)) as made:
        yield made


def test_only_what_is_new_or_changed_is_encoded(bench: Bench) -> None:
    bench.write(records(70))
    assert (bench.index().encoded, len(bench.encoder.encoded)) == (70, 70)
    bench.encoder.encoded.clear()
    report = bench.index()
    assert (report.encoded, report.unchanged, bench.encoder.encoded) == (0, 70, [])
    changed = records(71)
    changed[7]["text"], changed[8]["title"] = "another text", "a title now"
    changed[9]["label"], changed[10]["revision"] = "new", 5
    bench.write(changed)
    assert bench.index().encoded == 5
    assert sorted(bench.encoder.encoded) == ["d0007", "d0008", "d0009", "d0010", "d0070"]
    text, field, revision = bench.store.get(["d0007", "d0009", "d0010"])
    assert (text.text, field.fields["label"], revision.revision) == ("another text", "new", 5)


def test_the_encoder_is_freed_when_the_run_is_done(bench: Bench) -> None:
    """A calibration then loads the same model; without a cycle of references nothing waits for the collector."""
    bench.write(records(3))
    encoder = weakref.ref(bench.encoder)
    gc.disable()
    try:
        bench.index()
        del bench.encoder
        assert encoder() is None
    finally:
        gc.enable()


def test_prune_removes_what_the_sources_lost_and_spares_what_they_may_still_have(bench: Bench, tmp_path: Path) -> None:
    bench.write(records(10))
    bench.index()
    bench.write(records(8)[2:])
    assert bench.index().pruned == 0
    with bench.source.open("a") as out:
        out.write("{broken\n")
    assert (bench.index(prune=True).pruned, bench.size()) == (0, 10)
    refused: dict[str, object] = {"id": "d0007", "lang": "klingon language", "text": "x"}
    bench.write([*records(7)[2:], refused])
    assert bench.index(prune=True).pruned == 4
    left = [f"d000{number}" for number in range(2, 8)]
    assert list(bench.store.ids()) == left
    bench.source = tmp_path / "others.jsonl"
    bench.write([{"id": "other", "lang": "en", "text": "x"}])
    assert (bench.index(prune=True).pruned, list(bench.store.ids())) == (0, [*left, "other"])


def test_an_error_half_way_keeps_what_is_stored_and_the_next_run_goes_on_there(bench: Bench) -> None:
    bench.write(records(6 * CHUNK_DOCUMENTS))
    bench.break_off(4 * CHUNK_DOCUMENTS)
    stored = bench.size()
    assert 0 < stored <= 5 * CHUNK_DOCUMENTS
    report = bench.index()
    assert (report.resumed, report.encoded, bench.size()) == (True, 6 * CHUNK_DOCUMENTS, 6 * CHUNK_DOCUMENTS)
    assert len(bench.encoder.encoded) == 6 * CHUNK_DOCUMENTS - stored


def test_encodings_are_guessed_by_the_languages_that_the_collection_had_before_the_run(bench: Bench) -> None:
    def languages() -> Collection[str]:
        request = _IndexRequest([str(bench.source)], ReadOptions(), None, None, "cpu", False, False, "error")
        return request.leaning_on(bench.store, index_runs.runs(bench.engine, "c")).languages

    bench.write(records(70))
    bench.index()
    assert languages() == sorted(bench.store.count())
    bench.write(records(140))
    before = ReadOptions(languages=["cs"])
    bench.encoder.broken_at = len(bench.encoder.encoded) + 1
    with pytest.raises(RuntimeError, match="power"):
        pipeline.index([str(bench.source)], before, bench.encoder, bench.store, bench.engine, "c", console=QUIET)
    assert languages() == ["cs"]


@pytest.mark.parametrize("other", ["sources", "rule for duplicates", "chunks"])
def test_a_run_that_would_read_other_chunks_than_the_broken_one_begins_anew(bench: Bench, other: str) -> None:
    size = 4 * CHUNK_DOCUMENTS
    bench.write(records(size))
    bench.break_off(CHUNK_DOCUMENTS)
    if other == "sources":
        size += CHUNK_DOCUMENTS
        bench.write(records(size))
    if other == "chunks":
        with bench.engine.begin() as connection:
            connection.execute(sa.text("UPDATE chunks SET digest = 'other' WHERE number = 0"))
        with pytest.raises(StoreError, match="and a new run begins"):
            bench.index()
    assert not bench.index(on_duplicate="first" if other == "rule for duplicates" else "error").resumed
    assert bench.size() == size


@pytest.mark.parametrize(
    ("on_duplicate", "texts", "left_out"),
    [
        ("last", ["right after", "newer", "another"], [2, 129, 3, 4]),
        ("first", ["text 1", "newer", "text 3"], [129, 130, 3, 132]),
    ],
)
def test_of_an_id_one_counts(bench: Bench, on_duplicate: OnDuplicate, texts: list[str], left_out: list[int]) -> None:
    doc_ids = ["d0001", "d0002", "d0003"]
    many = records(2 * CHUNK_DOCUMENTS)
    many += [{"id": "d0001", "lang": "en", "text": text} for text in ("later", "right after")]
    many += [{"id": "d0002", "lang": "en", "text": "newer", "revision": 1}, {**many[3], "text": "another"}]
    bench.write(many)
    report = bench.index(on_duplicate=on_duplicate)
    assert (report.encoded, report.unchanged, report.duplicates) == (2 * CHUNK_DOCUMENTS, 0, 3)
    assert sorted(remark.place for remark in report.remarks) == sorted(f"{bench.source}:{line}" for line in left_out)
    assert {remark.doc_id for remark in report.remarks} == set(doc_ids)
    assert all("the id stands more than once in the sources" in remark.text for remark in report.remarks)
    assert [document.text for document in bench.store.get(doc_ids)] == texts
    bench.encoder.encoded.clear()
    report = bench.index(on_duplicate=on_duplicate)
    assert (report.encoded, report.unchanged, bench.encoder.encoded) == (0, 2 * CHUNK_DOCUMENTS, [])
    bench.write(many[:-1])
    bench.index(on_duplicate=on_duplicate)
    assert bench.store.get(["d0003"])[0].text == "text 3"


def test_ids_that_clash_are_refused_by_their_places_before_anything_is_indexed(bench: Bench) -> None:
    many = records(2 * CHUNK_DOCUMENTS)
    bench.write([*many, *({**record, "text": "another"} for record in many[:5])])
    with pytest.raises(BadInput) as raised:
        bench.index()
    places = [f"d000{row} ({bench.source}:{row + 1} and {bench.source}:{row + 129})" for row in range(3)]
    assert str(raised.value) == (
        f"5 ids stand more than once in the sources: {', '.join(places)} and 2 more; nothing was indexed. Give the "
        "documents ids of their own (whole files: name the folder above), or choose with --on-duplicate last or first"
    )
    assert (bench.store.count(), index_runs.runs(bench.engine, "c")) == ({}, [])


def test_a_lower_revision_replaces_neither_a_higher_one_of_the_sources_nor_the_stored_one(bench: Bench) -> None:
    a: dict[str, object] = {"id": "a", "lang": "en"}
    revisions = [{**a, "text": str(revision), "revision": revision} for revision in (9, 5, 3)]
    bench.write(revisions[1:])
    bench.index(on_duplicate="last")
    assert bench.store.get(["a"])[0].text == "5"
    bench.write(revisions[:1])
    bench.index()
    bench.write(revisions[1:])
    report = bench.index(on_duplicate="last")
    assert report.encoded == 0
    assert [remark.text for remark in report.remarks] == [
        "the id stands more than once in the sources; another of these documents counts (--on-duplicate), unless the "
        "collection holds a higher revision"
    ]
    assert bench.store.get(["a"])[0].text == "9"


def test_findings_of_the_run_before_stay_until_one_over_the_same_sources_is_done(bench: Bench) -> None:
    bench.write([*records(3), {"id": "empty", "lang": "en", "text": ""}])
    bench.index()
    bench.write(records(4))
    bench.break_off(0)
    runs = [run.id for run in index_runs.runs(bench.engine, "c")]
    assert [note.doc_id for note in findings_of(bench.engine, runs)] == ["empty"]
    bench.index()
    assert findings_of(bench.engine, runs) == []


@pytest.mark.parts
def test_a_line_of_megabytes_is_kept(bench: Bench, default_folder: ModelFolder) -> None:
    """*first* takes the whole size through reading, tokenising and storing."""
    text = ("Rivers carry their floods to the sea. " * 140_000)[:5_000_000]
    bench.write([{"id": one, "lang": "en", "text": text if one == "long" else "a"} for one in ("a", "long", "b")])
    report = index([str(bench.source)], "long", settings=bench.settings, method="first", device="cpu")
    assert (report.encoded, report.refused) == (3, [])
    with closing(StoreLocation(bench.settings.store, "long").open()) as store:
        assert store.get(["long"])[0].text == text


def test_progress_inside_a_very_long_document_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding_queue, "_EVERY", 0.0)
    told = list[str]()

    class Heard(Console):
        def say(self, sentence: str) -> None:
            told.append(sentence)

    class InBatches(FakeEncoder):
        def encode_documents(self, documents: Sequence[Document]) -> Encoded:
            until(lambda: bool(told))  # that it is begun is told meanwhile
            checkpoint = current_checkpoint.get()
            assert checkpoint
            list(checkpoint.batches("key", [1] * 4, 8, lambda _: iter(np.ones((4, 1, 8), np.float32))))
            return super().encode_documents(documents)

    bench.encoder = InBatches()
    bench.write([*records(1), {"id": "long", "lang": "en", "text": "word" * 75_000}])
    assert bench.index(console=Heard()).encoded == 2
    of_document = "encoding long, 300,000 characters"
    assert told[0] == f"{of_document} …"
    shares = [f"{of_document}: {share}" for share in ("25%", "50%", "75%", "100%")]
    assert [sentence for sentence in told if sentence.endswith("%")] == shares


def test_what_can_not_be_read_or_encoded_is_refused_and_the_rest_is_indexed(bench: Bench, tmp_path: Path) -> None:
    texts = {"a": "fine", "b": "", "c": "x", "d": "nothing known", "e": "fine too", "book": "x" * (TEXT_LIMIT + 1)}
    lines: list[dict[str, object]] = [
        {"id": name, "lang": "klingon language" if name == "c" else "en", "text": texts[name]} for name in texts
    ]
    lines += [
        {"id": "de", "text": "Das Hochwasser der Elbe hat die Stadt erreicht und viele Häuser überschwemmt."},
        {"id": "ja", "text": "川の水が増えて、町の多くの家が水につかりました。"},
    ]
    bench.write(lines)
    with bench.source.open("a") as out:
        out.write("{broken\n")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))  # no UTF-8
    folder.mkdir()
    (folder / "a.pdf").write_bytes(b"%PDF-1.4\n")
    report = bench.index(str(folder))
    assert list(bench.store.ids()) == ["a", "de", "e", "ja"]
    assert [document.lang for document in bench.store.get(["de", "ja"])] == ["de", "ja"]  # are detected
    told = {note.place.rsplit("/", 1)[-1]: note for note in report.refused}
    assert list(told) == ["docs.jsonl:2", "docs.jsonl:3", "docs.jsonl:6", "docs.jsonl:9", "a.pdf", "d"]
    assert (told["a.pdf"].place, told["a.pdf"].doc_id) == (f"{tmp_path}/caf\\xe9/a.pdf", "caf?/a.pdf")
    assert told["docs.jsonl:6"].text == (
        "it has 10,000,001 characters and 10,000,000 are the most; split it, say by chapters, into documents with ids "
        "of their own"
    )
    assert [note.text for note in bench.index(str(folder)).refused] == [note.text for note in report.refused]


def test_chunks_end_where_the_sources_say_not_where_time_does(bench: Bench) -> None:
    bench.write([{"id": str(number), "lang": "en", "text": "long " * 30_000} for number in range(20)])
    cut = list(read_chunks(readings([str(bench.source)], ReadOptions())))
    assert [len(chunk.documents) for chunk in cut] == [7, 7, 6]


def test_a_full_disk_is_one_sentence_and_what_is_stored_stays(bench: Bench) -> None:
    bench.write(records(20 * CHUNK_DOCUMENTS))
    file = bench.store._file  # type: ignore[attr-defined]
    with file.reading() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    prepare = file.prepare
    file.prepare = lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 8}")
    file.close()
    with pytest.raises(StoreError, match=r"disk is full.*see that the disk has room"):
        bench.index()
    before = bench.size()
    file.prepare = prepare
    file.close()
    assert bench.index().resumed
    assert before < bench.size() == 20 * CHUNK_DOCUMENTS


@pytest.mark.long
@pytest.mark.usefixtures("interruptible", "default_folder")
def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a command that is killed at a change: apt-get install gcc")
    outcomes = list(kills_while_indexing(tmp_path, seed=20))
    assert fallen(outcomes) == []
    assert len(outcomes) >= 5


@pytest.mark.parts
@pytest.mark.usefixtures("interruptible", "default_folder")
def test_ctrl_c_says_how_to_go_on_and_exits_with_130(tmp_path: Path) -> None:
    source, home = tmp_path / "long.jsonl", tmp_path / "home"
    source.write_text(json.dumps({"id": "a", "lang": "en", "text": "rivers and floods " * 40_000}) + "\n")
    command = [sys.executable, "-m", "query.cli", "index", str(source), "-c", "c", "--home", str(home)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: bool(chunk_states(home).get("pending")) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stored documents stay. Give the same command again to go on" in said
    assert "Traceback" not in said


@pytest.mark.parts
def test_memory_does_not_hold_the_collection(bench: Bench) -> None:
    def peak(count: int) -> int:
        bench.write([{"id": f"{count}-{number}", "lang": "en", "text": "x" * 4000} for number in range(count)])
        tracemalloc.start()
        bench.index()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    small, large = peak(8 * CHUNK_DOCUMENTS), peak(32 * CHUNK_DOCUMENTS)
    assert large < small + 4_000_000


def test_progress_says_how_far_it_is_and_json_stays_clean(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write(records(3 * CHUNK_DOCUMENTS))
    bench.index(console=Console(json=True))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(r" 64/192 documents, [\d,.]+/s, \d:\d\d:\d\d left\n", captured.err)
    assert re.search(r" 192/192 documents, [\d,.]+/s\n", captured.err)


def test_a_home_can_be_moved_and_what_does_not_fit_is_said(tmp_path: Path, default_folder: ModelFolder) -> None:
    (tmp_path / "doc.txt").write_text("The river rose and the town was under water.")
    before, after, source = tmp_path / "before", tmp_path / "after", str(tmp_path / "doc.txt")
    with pytest.raises(BadInput, match="does not exist"):
        index(["nowhere.jsonl"], "c", settings=Settings.read(home=before))
    with open_database(Settings.read(home=before).database) as engine:
        assert collections.all_collections(engine) == []
    report = index([source, source], "c", settings=Settings.read(home=before), device="cpu")
    assert (report.encoded, report.duplicates) == (1, 0)  # a source that is named twice is read once
    before.rename(after)
    settings = Settings.read(home=after)
    found = collections.require(connect(settings.database), "c")
    with closing(found.open_store(settings)) as store:
        assert store.count() == {"en": 1}
    with pytest.raises(ModelMismatch, match=r"by windows \(model .*by first is model"):
        index([source], "c", settings=settings, method="first", device="cpu")
    StoreLocation(settings.home_store, "c").drop()
    with pytest.raises(StoreError, match="is gone; bring it back"):
        found.open_store(settings)
    assert not (after / "store" / "c.db").exists()
