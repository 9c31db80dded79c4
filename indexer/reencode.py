"""Encode the documents of a store by another encoder, into a second field of vectors beside the first.

In this process, or by workers: those are told ids, and read what the store has when they come to them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec
from encoders.wording import counted
from indexer.indexing.pipeline import IndexReport, encode, report_of
from indexer.indexing.reading import CHUNK_DOCUMENTS, batches
from indexer.indexing.storing import NOTHING_KNOWN, existing_documents
from indexer.ledger.ledger import Ledger, runs
from indexer.ledger.tables import DONE, OF_COLLECTION, PAUSED, REFUSED, RUNNING
from indexer.stores.contract import VectorStore
from indexer.workers.publishing import hand_out
from indexer.workers.spool import packed_ids


def reencode(
    first: Sequence[str],
    encoder: Encoder,
    store: VectorStore,
    engine: sa.Engine,
    collection: str,
    *,
    generation: int,
    check: Callable[[], None],
    only_first: bool = False,
    console: Console,
) -> IndexReport:
    """Put the vectors of another encoder beside those that a store's documents have.

    It is a run of the ledger, killed and gone on with as any other. Nothing that is stored changes but for what is new.

    Args:
        first: ids of documents to encode before the others, in this order; those that are gone are left out.
        encoder: makes the vectors.
        store: holds the documents.
        engine: database of the ledger.
        collection: name the run is kept under.
        generation: of the collection, which the store is of.
        check: called between documents; it raises where the work shall end.
        only_first: leave the other documents out.
        console: where progress goes.

    Raises:
        StoreError: store or ledger failed; what is done stays done.
    """
    started = time.monotonic()
    model = encoder.spec.model

    def ids() -> Iterator[str]:
        return iter(first) if only_first else _ids(first, store)

    mark, count = _fingerprint(generation, ids())
    source = _source(collection) + (" (a sample)" if only_first else "")
    ledger = Ledger.open(engine, collection, [source], mark, model, encoder.spec.build, generation=generation)
    store.create(model, encoder.spec.dim)
    if ledger.resumed:
        done = counted(ledger.run.encoded + ledger.run.unchanged, "document is", "documents are")
        console.say(f"going on with run {ledger.run.id}: {done} done")
    with console.progress("encoding again", count, "documents") as progress:
        encode(_documents(store, ids(), check), encoder, store, ledger, console, progress)
    store.publish()
    ledger.finish(0)
    return report_of(ledger, time.monotonic() - started)


def hand_out_again(
    first: Sequence[str],
    encoder: str,
    spec: EncoderSpec,
    store: VectorStore,
    engine: sa.Engine,
    collection: str,
    *,
    generation: int,
    check: Callable[[], None],
    console: Console,
) -> Ledger:
    """Hand a store's documents out to workers, which put another encoder's vectors beside those that they have.

    Nothing is encoded here. Workers begin when all is handed out; broken off before, the same call goes on. Of a run
    that they are at already nothing is changed: its order is that of when it began. One that they are done with, and
    since which nothing was indexed, is given as it is, unless a document was refused that the encoder may know.

    Args:
        first: ids of documents to encode before the others, in this order; those that are gone are left out.
        encoder: its name or folder, for workers.
        spec: what it is.
        store: holds the documents.
        engine: database of the ledger.
        collection: name the run is kept under.
        generation: of the collection, which the store is of.
        check: called between documents; it raises where the work shall end.
        console: where progress goes.

    Raises:
        BadInput: workers are at another run of this collection.
        StoreError: store or ledger failed.
    """
    newest = next(reversed(runs(engine, collection)), None)
    if newest and newest.again and (newest.model, newest.generation) == (spec.model, generation):
        ledger = Ledger(engine, newest, resumed=True)
        if newest.state in {RUNNING, PAUSED} or (newest.state == DONE and not _has_gaps(ledger)):
            return ledger
    mark, count = _fingerprint(generation, _ids(first, store))
    ledger = Ledger.open(
        engine, collection, [_source(collection)], mark, spec.model, spec.build,
        spooled=True, generation=generation, again={"encoder": encoder, "method": spec.method},
    )  # fmt: skip
    store.create(spec.model, spec.dim)
    with console.progress("handing out", count, "documents") as progress:
        chunks = batches(_documents(store, _ids(first, store), check))
        hand_out(chunks, spec.model, store, ledger, progress, packed_ids)
    return ledger


def _has_gaps(ledger: Ledger) -> bool:
    """Whether a run refused a document for a reason that may not be there the next time."""
    return any(note.kind == REFUSED and note.text != NOTHING_KNOWN for note in ledger.findings())


def _source(collection: str) -> str:
    return OF_COLLECTION + collection


def _ids(first: Sequence[str], store: VectorStore) -> Iterator[str]:
    """Every id once, some before the others."""
    yield from first
    known = set(first)
    yield from (doc_id for doc_id in store.ids() if doc_id not in known)


def _fingerprint(generation: int, doc_ids: Iterable[str]) -> tuple[str, int]:
    """What identifies some documents in their order, and how many they are."""
    digest, count = hashlib.sha256(f"encoding again {generation}".encode()), 0
    for doc_id in doc_ids:
        digest.update(f"\n{doc_id}".encode())
        count += 1
    return digest.hexdigest()[:16], count


def _documents(store: VectorStore, doc_ids: Iterable[str], check: Callable[[], None]) -> Iterator[Document]:
    """The documents of some ids; one that goes meanwhile is left out."""
    left = iter(doc_ids)
    while page := list(islice(left, CHUNK_DOCUMENTS)):
        check()
        yield from existing_documents(store, page)
