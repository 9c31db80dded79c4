"""Encode the documents of a store by another encoder, into a second field of vectors beside the first."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import sqlalchemy as sa

from encoders.console import Console
from encoders.document import Document, Encoder
from indexer.batches import CHUNK_DOCUMENTS
from indexer.ledger import Ledger
from indexer.pipeline import IndexReport, encode, report_of
from indexer.stores.contract import VectorStore


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
        yield from first
        if not only_first:
            known = set(first)
            yield from (doc_id for doc_id in store.ids() if doc_id not in known)

    mark, count = _fingerprint(generation, ids())
    source = f"collection:{collection}" + (" (a sample)" if only_first else "")
    ledger = Ledger.open(engine, collection, [source], mark, model, encoder.spec.build, generation=generation)
    store.create(model, encoder.spec.dim)
    if ledger.resumed:
        console.say(
            f"going on with run {ledger.run.id}: {ledger.run.encoded + ledger.run.unchanged:,} documents are done"
        )
    with console.progress("encoding again", count, "documents") as progress:
        encode(_documents(store, ids(), check), encoder, store, ledger, console, progress)
    store.publish()
    ledger.finish(0)
    return report_of(ledger, time.monotonic() - started)


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
        try:
            yield from store.get(page)
        except KeyError:
            for doc_id in page:
                yield from _if_there(store, doc_id)


def _if_there(store: VectorStore, doc_id: str) -> list[Document]:
    try:
        return store.get([doc_id])
    except KeyError:
        return []
