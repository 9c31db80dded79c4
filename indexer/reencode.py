"""Encode the documents of a store with another encoder, here or by workers, into a second vector field."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoder, EncoderSpec
from indexer.indexing.pipeline import IndexReport, Pipeline, report_of
from indexer.indexing.reading import CHUNK_DOCUMENTS, read_chunks
from indexer.indexing.storing import existing_documents
from indexer.ledger.index_runs import runs
from indexer.ledger.ledger import Ledger
from indexer.ledger.spool import pack_ids
from indexer.ledger.tables import DONE, OF_COLLECTION, PAUSED, RUNNING
from indexer.stores.contract import VectorStore
from indexer.workers.handout import hand_out_chunks


def reencode(
    encoder: Encoder,
    store: VectorStore,
    engine: sa.Engine,
    collection: str,
    *,
    generation: int,
    check: Callable[[], None],
    checkpoints: Path | None = None,
    console: Console,
) -> IndexReport:
    """Add vectors of another encoder to a store's documents; returns the report of the run.

    The run resumes like any other; deleted documents are skipped. ``check`` is called before each page of documents and
    raises an error to stop the work. ``checkpoints`` keeps what is encoded of very long documents until the run is
    done. Raises StoreError: the store or the ledger failed; finished work stays stored.
    """
    started = time.monotonic()
    fingerprint, count = _fingerprint(generation, store.ids())
    source, spec = OF_COLLECTION + collection, encoder.spec
    ledger = Ledger.open(engine, collection, [source], fingerprint, spec.model, spec.build, generation=generation)
    with console.progress("encoding again", count, "documents") as progress:
        chunks = read_chunks(_documents(store, store.ids(), check))
        Pipeline(encoder, store, ledger, console, progress, reencoding=True, checkpoints=checkpoints).run(chunks)
    store.publish()
    ledger.finish(0)
    return report_of(ledger, time.monotonic() - started)


def hand_out_stored(
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
    """Hand a store's documents out to workers, which add vectors of another encoder; returns the run's ledger.

    Workers begin when all documents are handed out; after an interruption, the same call resumes. A run in progress or
    paused is returned in its original order, and so is a finished run if nothing was indexed since and it refused no
    document that the encoder may know. ``encoder`` is a name or folder; the other arguments are those of ``reencode``.
    Raises BadInput: another run is in progress; StoreError: the store or the ledger failed.
    """
    newest = next(reversed(runs(engine, collection)), None)
    if newest and newest.again and (newest.model, newest.generation) == (spec.model, generation):
        ledger = Ledger(engine, newest, resumed=True)
        final = all(refusal.is_nothing_known for refusal in ledger.refusals())  # others may be gone the next time
        if newest.state in {RUNNING, PAUSED} or (newest.state == DONE and final):
            return ledger
    fingerprint, count = _fingerprint(generation, store.ids())
    ledger = Ledger.open(
        engine, collection, [OF_COLLECTION + collection], fingerprint, spec.model, spec.build,
        spooled=True, generation=generation, again={"encoder": encoder, "method": spec.method},
    )  # fmt: skip
    store.create(spec.model, spec.dim)
    with console.progress("handing out", count, "documents") as progress:
        chunks = read_chunks(_documents(store, store.ids(), check))
        hand_out_chunks(chunks, spec.model, store, ledger, progress, pack_ids)
    return ledger


def _fingerprint(generation: int, doc_ids: Iterable[str]) -> tuple[str, int]:
    """Fingerprint of document ids in their order, and the number of ids."""
    digest, count = hashlib.sha256(f"encoding again {generation}".encode()), 0
    for doc_id in doc_ids:
        digest.update(f"\n{doc_id}".encode())
        count += 1
    return digest.hexdigest()[:16], count


def _documents(store: VectorStore, doc_ids: Iterable[str], check: Callable[[], None]) -> Iterator[Document]:
    """The documents with these ids, without those that were deleted meanwhile."""
    remaining_ids = iter(doc_ids)
    while chunk_ids := list(islice(remaining_ids, CHUNK_DOCUMENTS)):
        check()
        yield from existing_documents(store, chunk_ids)
