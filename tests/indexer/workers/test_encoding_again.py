"""A store's own documents handed out to workers of another encoder: its vectors come beside those that are there."""

import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from encoders.console import Console
from encoders.document import Document, Encoded
from encoders.errors import BadInput, StoreError
from encoders.inference.batch_checkpoint import Checkpoint, current_checkpoint
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.indexing import pipeline
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.indexing.storing import put_encoded
from indexer.ledger import index_runs
from indexer.ledger.database import connect, transaction
from indexer.ledger.findings import Finding, findings_of
from indexer.ledger.index_runs import refuse_while_workers
from indexer.ledger.ledger import Ledger
from indexer.ledger.spool import pack_ids, unpack
from indexer.ledger.tables import ABANDONED, DONE, READING
from indexer.readers.records.source import ReadOptions
from indexer.reencode import hand_out_stored, reencode
from indexer.stores.contract import StoredDocument, VectorStore
from indexer.workers.celery_worker import WorkerPlan
from indexer.workers.run_control import cancel
from indexer.workers.sweeps import sweep
from query.commands import worker as worker_command
from tests.indexer.workers.conftest import Field, records
from trials.fake_encoder import FakeEncoder

pytestmark = pytest.mark.parts

CHUNKS = 4


@pytest.fixture
def new() -> FakeEncoder:
    """The other encoder, whose queue is this test's own."""
    encoder = FakeEncoder()
    encoder.spec = replace(encoder.spec, method="first", model=f"model-{uuid.uuid4().hex[:8]}", build="build-new")
    return encoder


@pytest.fixture
def indexed(field: Field) -> Field:
    """Documents of four chunks, with the vectors of the first encoder."""
    field.write(records(CHUNKS * CHUNK_DOCUMENTS))
    source = [str(field.source)]
    pipeline.index(source, ReadOptions(), field.encoder, field.store, field.engine, "c", console=Console(quiet=True))
    return field


def hand_out(field: Field, new: FakeEncoder) -> Ledger:
    return hand_out_stored(
        "new", new.spec, field.store, field.engine, "c",
        generation=1, check=lambda: None, console=Console(quiet=True),
    )  # fmt: skip


def end(field: Field, new: FakeEncoder) -> None:
    field.work_off(field.worker(new), index_runs.runs(field.engine, "c")[-1].id)
    sweep(field.engine, field.settings, field.hints, new.spec.model, every=0.0)
    assert index_runs.runs(field.engine, "c")[-1].state == DONE


def held(store: VectorStore, model: str) -> dict[str, tuple[str, bytes]]:
    return {
        one.document.doc_id: (one.document.text, one.vector.tobytes()) for page in store.scan(model) for one in page
    }


def test_it_ends_as_one_process_ends_and_the_old_vectors_stay(indexed: Field, new: FakeEncoder, tmp_path: Path) -> None:
    before = held(indexed.store, indexed.model)
    run = hand_out(indexed, new).run
    assert (run.model, run.again) == (new.spec.model, {"encoder": "new", "method": "first"})
    assert not indexed.worker().work(run.id, 0)  # of the first encoder: not its chunks
    end(indexed, new)
    assert len(new.encoded) == len(set(new.encoded)) == len(before)
    assert held(indexed.store, indexed.model) == before

    alone = Settings.read(home=tmp_path / "alone")
    with closing(StoreLocation(alone.store, "c").open()) as store:
        engine, quiet = connect(alone.database), Console(quiet=True)
        pipeline.index([str(indexed.source)], ReadOptions(), indexed.encoder, store, engine, "c", console=quiet)
        reencode(new, store, engine, "c", generation=1, check=lambda: None, console=quiet)
        assert held(indexed.store, new.spec.model) == held(store, new.spec.model)
        engine.dispose()


def test_what_is_changed_or_deleted_after_it_was_handed_out_stays_so(indexed: Field, new: FakeEncoder) -> None:
    run = hand_out(indexed, new).run
    changed = Document("d0001", "en", "another text", fields={"label": "news"})
    put_encoded(indexed.store, indexed.model, [changed], indexed.encoder.encode_documents([changed]))
    whole_chunk = [f"d{number:04d}" for number in range(CHUNK_DOCUMENTS, 2 * CHUNK_DOCUMENTS)]
    indexed.store.delete(["d0002", *whole_chunk])
    kept = held(indexed.store, indexed.model)
    end(indexed, new)
    assert held(indexed.store, indexed.model) == kept
    assert indexed.store.get(["d0001"]) == [changed]
    assert not findings_of(indexed.engine, [run.id])
    again = held(indexed.store, new.spec.model)
    assert again.keys() == kept.keys()
    assert again["d0001"] == ("another text", new.encode_documents([changed]).vectors.tobytes())


@pytest.mark.parametrize("by", ["workers", "one process"])
def test_what_is_changed_or_deleted_while_the_encoder_is_at_it_stays_so(
    indexed: Field, new: FakeEncoder, by: str
) -> None:
    changed = Document("d0001", "en", "another text", fields={"label": "news"})
    encode, old = new.encode_documents, indexed.encoder

    def interfering(documents: Sequence[Document]) -> Encoded:
        made = encode(documents)
        if any(one.doc_id == "d0001" and one.text != changed.text for one in documents):
            put_encoded(indexed.store, indexed.model, [changed], old.encode_documents([changed]))
            indexed.store.delete(["d0002"])
        return made

    new.encode_documents = interfering  # type: ignore[method-assign]
    if by == "workers":
        hand_out(indexed, new)
        end(indexed, new)
    else:
        quiet = Console(quiet=True)
        reencode(new, indexed.store, indexed.engine, "c", generation=1, check=lambda: None, console=quiet)
    assert indexed.store.get(["d0001"]) == [changed]
    assert "d0002" not in indexed.store.ids()
    again = [stored for page in indexed.store.scan(new.spec.model) for stored in page]
    assert {stored.document.doc_id for stored in again} == held(indexed.store, indexed.model).keys()
    for stored in again:  # the vectors of those after the deleted document are their own, too
        expected = StoredDocument.of(stored.document, encode([stored.document]), 0)
        assert stored.vector.tobytes() == expected.vector.tobytes()
        assert stored.passages.vectors.tobytes() == expected.passages.vectors.tobytes()


def test_what_workers_are_at_is_looked_at_though_there_are_other_documents_by_now(
    indexed: Field, new: FakeEncoder
) -> None:
    run = hand_out(indexed, new).run
    indexed.store.delete(["d0200"])
    again = hand_out(indexed, new)
    assert (again.run.id, again.resumed) == (run.id, True)
    other = FakeEncoder()
    other.spec = replace(new.spec, model="model-other")
    with pytest.raises(BadInput, match="workers are at run 2 of collection c"):
        hand_out(indexed, other)


def test_a_run_that_workers_are_done_with_is_begun_again_only_for_what_may_be_encoded_the_next_time(
    indexed: Field, new: FakeEncoder
) -> None:
    encode = new.encode_documents

    def knowing_less(documents: Sequence[Document]) -> Encoded:
        made = encode(documents)
        known = np.array([[one.doc_id != "d0005"] for one in documents])
        return replace(made, known=known)

    new.encode_documents = knowing_less  # type: ignore[method-assign]
    run = hand_out(indexed, new).run
    end(indexed, new)
    assert [note.doc_id for note in findings_of(indexed.engine, [run.id])] == ["d0005"]
    again = hand_out(indexed, new)
    assert (again.run.id, again.run.state) == (run.id, DONE)
    with transaction(indexed.engine) as session:
        session.add(Finding.refusal("d0005", "it can't be encoded: its worker died").row(run.id))
    again = hand_out(indexed, new)
    assert (again.run.id, again.run.unchanged) == (run.id + 1, CHUNKS * CHUNK_DOCUMENTS - 1)


def test_cancelled_while_it_is_handed_out_it_ends_in_a_true_sentence(
    indexed: Field, new: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = indexed.store.stamps

    def cancelling(model: str, doc_ids: Sequence[str]) -> object:
        if "d0100" in doc_ids:
            cancel(indexed.engine, "c")
        return stamps(model, doc_ids)

    monkeypatch.setattr(indexed.store, "stamps", cancelling)
    with pytest.raises(BadInput, match="run 2 of collection c was cancelled while its documents were handed out"):
        hand_out(indexed, new)


def test_broken_off_while_it_is_handed_out_the_same_call_goes_on_and_with_other_documents_it_begins_anew(
    indexed: Field, new: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps, calls = indexed.store.stamps, list[str]()

    def broken(model: str, doc_ids: Sequence[str]) -> object:
        calls.append(model)
        if len(calls) in {3, 5}:
            raise StoreError("the store is away")
        return stamps(model, doc_ids)

    monkeypatch.setattr(indexed.store, "stamps", broken)
    for deleted in ([], ["d0200"]):
        indexed.store.delete(deleted)
        with pytest.raises(StoreError, match="the store is away"):
            hand_out(indexed, new)
        assert index_runs.runs(indexed.engine, "c")[-1].state == READING
    again = hand_out(indexed, new)
    assert (again.resumed, len(calls)) == (True, 5 + CHUNKS - 1)
    assert [run.state for run in index_runs.runs(indexed.engine, "c")] == [DONE, ABANDONED, "running"]
    end(indexed, new)
    assert held(indexed.store, new.spec.model).keys() == held(indexed.store, indexed.model).keys()


def test_a_worker_of_the_collection_loads_the_encoder_that_it_is_encoded_again_by(
    indexed: Field, new: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = list[WorkerPlan]()

    def noted(plan: WorkerPlan, *_: object) -> int:
        plans.append(plan)
        return 0

    monkeypatch.setattr(worker_command, "serve", noted)
    place = ["--home", str(indexed.settings.home), "--database", indexed.settings.database]
    start = partial(CliRunner().invoke, worker_command.command)
    assert start(["-c", "c", *place]).exit_code == 0
    hand_out(indexed, new)
    for more in ([], ["--encoder", "elsewhere"]):
        assert start(["-c", "c", *place, *more]).exit_code == 0
    end(indexed, new)
    assert start(["-c", "c", *place]).exit_code == 0
    fake = ("fake", indexed.encoder.spec.method)
    assert [(plan.reference, plan.method) for plan in plans] == [
        fake,
        ("new", "first"),
        ("elsewhere", "first"),
        fake,
    ]


def test_a_worker_of_the_old_encoder_says_that_another_is_needed(
    indexed: Field, new: FakeEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    run = hand_out(indexed, new).run
    assert not indexed.worker().work(run.id, 0)
    assert (
        f"collection c is encoded again by new, whose model is {new.spec.model}, and this worker makes vectors of "
        f"model {indexed.model}: it leaves the run to other workers (logged once); start another one, which loads that "
        "encoder: dragoman worker -c c"
    ) in caplog.messages


def test_nothing_else_is_indexed_meanwhile_not_even_by_the_same_encoder(indexed: Field, new: FakeEncoder) -> None:
    hand_out(indexed, new)
    for model in (new.spec.model, indexed.model, ""):
        with pytest.raises(BadInput, match="workers are at run 2 of collection c"):
            refuse_while_workers(indexed.engine, "c", unless=model)
    refuse_while_workers(indexed.engine, "c", unless=new.spec.model, reencoding=True)


def test_pruning_afterwards_removes_what_the_sources_lost(indexed: Field, new: FakeEncoder) -> None:
    hand_out(indexed, new)
    end(indexed, new)
    indexed.write(records(10))
    source, quiet = [str(indexed.source)], Console(quiet=True)
    pipeline.index(
        source, ReadOptions(), indexed.encoder, indexed.store, indexed.engine, "c", prune=True, console=quiet
    )
    assert len(list(indexed.store.ids())) == 10


def test_what_is_handed_out_overwrites_nothing_should_it_be_put_as_it_is(indexed: Field) -> None:
    before = held(indexed.store, indexed.model)
    documents = unpack(pack_ids(indexed.store.get(list(before))))
    assert put_encoded(indexed.store, indexed.model, documents, indexed.encoder.encode_documents(documents)).stored == 0
    assert held(indexed.store, indexed.model) == before


def test_encoding_again_keeps_what_is_done_of_a_long_document(indexed: Field, new: FakeEncoder, tmp_path: Path) -> None:
    long_text = [Document("book", "en", "word" * 75_000)]
    put_encoded(indexed.store, indexed.model, long_text, indexed.encoder.encode_documents(long_text))
    encode, checkpoints = new.encode_documents, []

    def watching(documents: Sequence[Document]) -> Encoded:
        if any(document.doc_id == "book" for document in documents):
            checkpoints.append(current_checkpoint.get())
        return encode(documents)

    new.encode_documents = watching  # type: ignore[method-assign]
    reencode(
        new, indexed.store, indexed.engine, "c",
        generation=1, check=lambda: None, checkpoints=tmp_path / "encoding", console=Console(quiet=True),
    )  # fmt: skip
    assert [type(checkpoint) for checkpoint in checkpoints] == [Checkpoint]
