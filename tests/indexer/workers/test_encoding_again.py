"""A store's own documents handed out to workers of another encoder: its vectors come beside those that are there."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from encoders.document import Document, Encoded
from encoders.errors import BadInput, StoreError
from encoders.inference.batch_checkpoint import Checkpoint, current_checkpoint
from indexer.indexing import pipeline
from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.indexing.storing import put_encoded
from indexer.ledger.database import transaction
from indexer.ledger.findings import Finding, findings_of
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import ABANDONED, DONE, READING
from indexer.readers.records.source import ReadOptions
from indexer.reencode import hand_out_stored, reencode
from indexer.stores.contract import StoredDocument, VectorStore
from indexer.workers.run_control import cancel
from tests.conftest import Log, Patch
from tests.indexer.workers.conftest import QUIET, Field, records
from trials.fake_encoder import FakeEncoder

pytestmark = pytest.mark.parts

CHUNKS = 4


@pytest.fixture
def new() -> FakeEncoder:
    """The other encoder, whose queue is this test's own."""
    encoder = FakeEncoder()
    encoder.spec = replace(encoder.spec, method="first", model=f"model-{uuid.uuid4().hex[:8]}", build="build-new")
    return encoder


QUIETLY: dict[str, Any] = {"generation": 1, "check": lambda: None, "console": QUIET}


def index(field: Field, store: VectorStore, engine: sa.Engine, *, prune: bool = False) -> None:
    source, options = [str(field.source)], ReadOptions()
    pipeline.index(source, options, field.encoder, store, engine, "c", prune=prune, console=QUIET)


@pytest.fixture
def indexed(field: Field) -> Field:
    """Documents of four chunks, with the vectors of the first encoder."""
    field.write(records(CHUNKS * CHUNK_DOCUMENTS))
    index(field, field.store, field.engine)
    return field


def hand_out(field: Field, new: FakeEncoder) -> Ledger:
    return hand_out_stored("new", new.spec, field.store, field.engine, "c", **QUIETLY)


def held(store: VectorStore, model: str) -> dict[str, tuple[str, bytes]]:
    stored = (one for page in store.scan(model) for one in page)
    return {one.document.doc_id: (one.document.text, one.vector.tobytes()) for one in stored}


def test_it_ends_as_one_process_ends_and_old_vectors_stay(indexed: Field, new: FakeEncoder, caplog: Log) -> None:
    before, run = held(indexed.store, indexed.model), hand_out(indexed, new).run
    assert (run.model, run.again) == (new.spec.model, {"encoder": "new", "method": "first"})
    assert not indexed.worker().work(run.id, 0)  # of the first encoder: not its chunks
    assert (
        f"collection c is encoded again by new, whose model is {new.spec.model}, and this worker makes vectors of "
        f"model {indexed.model}: it leaves the run to other workers (logged once); start another one, which loads that "
        "encoder: dragoman worker -c c"
    ) in caplog.messages
    indexed.end(new)
    assert len(new.encoded) == len(set(new.encoded)) == len(before)
    assert held(indexed.store, indexed.model) == before
    indexed.write(records(10))
    index(indexed, indexed.store, indexed.engine, prune=True)
    assert indexed.size() == 10


def test_what_is_changed_or_deleted_after_it_was_handed_out_stays_so(indexed: Field, new: FakeEncoder) -> None:
    run = hand_out(indexed, new).run
    changed = Document("d0001", "en", "another text", fields={"label": "news"})
    put_encoded(indexed.store, indexed.model, [changed], indexed.encoder.encode_documents([changed]))
    whole_chunk = [f"d{number:04d}" for number in range(CHUNK_DOCUMENTS, 2 * CHUNK_DOCUMENTS)]
    indexed.store.delete(["d0002", *whole_chunk])
    kept = held(indexed.store, indexed.model)
    indexed.end(new)
    assert (held(indexed.store, indexed.model), indexed.store.get(["d0001"])) == (kept, [changed])
    assert not findings_of(indexed.engine, [run.id])
    again = held(indexed.store, new.spec.model)
    assert again.keys() == kept.keys()
    assert again["d0001"] == ("another text", new.encode_documents([changed]).vectors.tobytes())


@pytest.mark.parametrize("by", ["workers", "one process"])
def test_what_is_changed_or_deleted_during_encoding_stays_so(indexed: Field, new: FakeEncoder, by: str) -> None:
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
        indexed.end(new)
    else:
        reencode(new, indexed.store, indexed.engine, "c", **QUIETLY)
    assert indexed.store.get(["d0001"]) == [changed]
    assert "d0002" not in indexed.store.ids()
    again = [stored for page in indexed.store.scan(new.spec.model) for stored in page]
    assert {stored.document.doc_id for stored in again} == held(indexed.store, indexed.model).keys()
    for stored in again:  # the vectors of those after the deleted document are their own, too
        expected = StoredDocument.of(stored.document, encode([stored.document]), 0)
        assert stored.vector.tobytes() == expected.vector.tobytes()
        assert stored.passages.vectors.tobytes() == expected.passages.vectors.tobytes()


def test_other_documents_begin_no_second_run(indexed: Field, new: FakeEncoder) -> None:
    run = hand_out(indexed, new).run
    indexed.store.delete(["d0200"])
    again = hand_out(indexed, new)
    assert (again.run.id, again.resumed) == (run.id, True)
    other = FakeEncoder()
    other.spec = replace(new.spec, model="model-other")
    with pytest.raises(BadInput, match="workers are at run 2 of collection c"):
        hand_out(indexed, other)


def test_only_what_may_be_encoded_the_next_time_is_begun_again(indexed: Field, new: FakeEncoder) -> None:
    encode = new.encode_documents

    def knowing_less(documents: Sequence[Document]) -> Encoded:
        made, known = encode(documents), np.array([[one.doc_id != "d0005"] for one in documents])
        return replace(made, known=known)

    new.encode_documents = knowing_less  # type: ignore[method-assign]
    run = hand_out(indexed, new).run
    indexed.end(new)
    assert [note.doc_id for note in findings_of(indexed.engine, [run.id])] == ["d0005"]
    again = hand_out(indexed, new)
    assert (again.run.id, again.run.state) == (run.id, DONE)
    with transaction(indexed.engine) as session:
        session.add(Finding.refusal("d0005", "it can't be encoded: its worker died").row(run.id))
    again = hand_out(indexed, new)
    assert (again.run.id, again.run.unchanged) == (run.id + 1, CHUNKS * CHUNK_DOCUMENTS - 1)


def test_cancelled_meanwhile_it_is_said(indexed: Field, new: FakeEncoder, monkeypatch: Patch) -> None:
    stamps = indexed.store.stamps

    def cancelling(model: str, doc_ids: Sequence[str]) -> object:
        if "d0100" in doc_ids:
            cancel(indexed.engine, "c")
        return stamps(model, doc_ids)

    monkeypatch.setattr(indexed.store, "stamps", cancelling)
    with pytest.raises(BadInput, match="run 2 of collection c was cancelled while its documents were handed out"):
        hand_out(indexed, new)


def test_broken_off_while_it_is_handed_out_it_goes_on(indexed: Field, new: FakeEncoder, monkeypatch: Patch) -> None:
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
        assert indexed.states()[-1] == READING
    again = hand_out(indexed, new)
    assert (again.resumed, len(calls), indexed.states()) == (True, 5 + CHUNKS - 1, [DONE, ABANDONED, "running"])
    indexed.end(new)
    assert held(indexed.store, new.spec.model).keys() == held(indexed.store, indexed.model).keys()


def test_encoding_again_keeps_what_is_done_of_a_long_document(indexed: Field, new: FakeEncoder, tmp_path: Path) -> None:
    long_text = [Document("book", "en", "word" * 75_000)]
    put_encoded(indexed.store, indexed.model, long_text, indexed.encoder.encode_documents(long_text))
    encode, checkpoints = new.encode_documents, []

    def watching(documents: Sequence[Document]) -> Encoded:
        if any(document.doc_id == "book" for document in documents):
            checkpoints.append(current_checkpoint.get())
        return encode(documents)

    new.encode_documents = watching  # type: ignore[method-assign]
    reencode(new, indexed.store, indexed.engine, "c", checkpoints=tmp_path / "encoding", **QUIETLY)
    assert [type(checkpoint) for checkpoint in checkpoints] == [Checkpoint]
