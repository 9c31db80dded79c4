"""Index a collection in this process: read → encode → put, chunk by chunk, killed and resumed without loss."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import sqlalchemy as sa

from encoders.console import Console, Progress
from encoders.document import Document, Encoded, Encoder, short_hash
from encoders.wording import counted
from indexer.indexing import pruning
from indexer.indexing.reading import Batch, batches, check_sources, count_ahead, documents_with, readings
from indexer.indexing.storing import StoringOutcome, put_beside, put_encoded
from indexer.ledger.ledger import Ledger, Note
from indexer.ledger.tables import DONE, REFUSED, REMARK, Chunk
from indexer.readers import ReadOptions
from indexer.stores.contract import Stamp, VectorStore

_LONG = 200_000
"""Characters from which on a document by itself takes so long that progress stands still."""
_IN_FLIGHT = 3
"""Chunks being encoded or waiting for it, so that reading, tokenising and writing overlap with encoding."""


@dataclass(frozen=True)
class IndexReport:
    """What an index run did.

    Attributes:
        run: its number in the ledger.
        resumed: whether it went on where an interrupted one stopped.
        encoded: documents encoded and put.
        unchanged: documents that were stored with this text already.
        refused: records that could not be indexed, since the run began.
        remarks: what else should be known.
        pruned: documents removed because no source has them any more.
        seconds: of this process.
    """

    run: int
    resumed: bool
    encoded: int
    unchanged: int
    refused: list[Note]
    remarks: list[Note]
    pruned: int
    seconds: float


def report_of(ledger: Ledger, seconds: float) -> IndexReport:
    """What a run did, as its ledger says."""
    notes = ledger.findings()
    run = ledger.run
    return IndexReport(
        run=run.id,
        resumed=ledger.resumed,
        encoded=run.encoded,
        unchanged=run.unchanged,
        refused=[note for note in notes if note.kind == REFUSED],
        remarks=[note for note in notes if note.kind == REMARK],
        pruned=run.pruned,
        seconds=seconds,
    )


def index(
    sources: Sequence[str],
    options: ReadOptions,
    encoder: Encoder,
    store: VectorStore,
    engine: sa.Engine,
    collection: str,
    *,
    generation: int = 1,
    prune: bool = False,
    console: Console | None = None,
) -> IndexReport:
    """Read sources, encode what is new or changed, put it into the store.

    The ledger knows each chunk before work on it begins and when it is stored. Whatever kills the process in between,
    the same call goes on there; what it then writes is what it would have written.

    Args:
        sources: files, folders, ``elastic:URL``, ``ir-datasets:NAME``.
        options: how to read them.
        encoder: makes the vectors.
        store: takes them.
        engine: database of the ledger.
        collection: name the run is kept under.
        generation: of the collection, which the store is of: an interrupted run is gone on with in its own.
        prune: at the end remove what the sources do not have any more.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: a source can't be read at all.
        StoreError: store or ledger failed; what is done stays done.
    """
    console = console or Console(quiet=True)
    started = time.monotonic()
    model = encoder.spec.model
    mark = short_hash(check_sources(sources, options), str(generation))
    ledger = Ledger.open(engine, collection, sources, mark, model, encoder.spec.build)
    store.create(model, encoder.spec.dim)
    if ledger.resumed:
        done = counted(ledger.run.encoded + ledger.run.unchanged, "document is", "documents are")
        console.say(f"going on with run {ledger.run.id}: {done} done")
    with console.progress("indexing", None, "documents") as progress:
        if not console.quiet:
            count_ahead(sources, options, progress)
        last = _last_stamps(sources, options, ledger.repeated())
        _Work(encoder, store, ledger, last, console, progress).run(batches(readings(sources, options)))
    pruned = pruning.prune(ledger, store, console) if prune else 0
    store.publish()
    ledger.finish(pruned)
    return report_of(ledger, time.monotonic() - started)


def encode(
    documents: Iterable[Document],
    encoder: Encoder,
    store: VectorStore,
    ledger: Ledger,
    console: Console,
    progress: Progress,
) -> None:
    """Encode documents that a store holds already and put what another encoder makes of them beside; by the ledger."""
    _Work(encoder, store, ledger, {}, console, progress, beside=True).run(batches(documents))


class _Work:
    """Chunks on their way: planned and put by the caller's thread in their order, encoded by two others."""

    def __init__(
        self,
        encoder: Encoder,
        store: VectorStore,
        ledger: Ledger,
        last: Mapping[str, Stamp],
        console: Console,
        progress: Progress,
        *,
        beside: bool = False,
    ) -> None:
        self.encoder, self.store, self.ledger, self.last = encoder, store, ledger, last
        self.console, self.progress, self.beside = console, progress, beside
        self.under_way: deque[tuple[Chunk, list[Document], int, Future[Encoded] | None]] = deque()

    def run(self, batches: Iterable[Batch]) -> None:
        pool = ThreadPoolExecutor(2, thread_name_prefix="chunk")
        try:
            for batch in batches:
                self._begin(batch, pool.submit)
                while len(self.under_way) > _IN_FLIGHT:
                    self._end()
            while self.under_way:
                self._end()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, batch: Batch, submit: Callable[..., Future[Encoded]]) -> None:
        chunk = self.ledger.recall(batch.number, batch.digest)
        if chunk is None:
            chunk = self.ledger.plan(
                batch.number, self._todo(batch.documents), batch.digest, batch.doc_ids, batch.notes
            )
        if chunk.state == DONE:
            self.progress(batch.records)
            return
        todo = [document for document, wanted in zip(batch.documents, chunk.todo, strict=True) if wanted]
        encoding = submit(self.encoder.encode_documents, todo) if todo else None
        self.under_way.append((chunk, todo, batch.records, encoding))

    def _todo(self, documents: Sequence[Document]) -> list[bool]:
        """Which documents are new or changed, against the store as it will be when the chunks before are in it."""
        stamps = self.store.stamps(self.encoder.spec.model, [document.doc_id for document in documents])
        stamps |= {document.doc_id: Stamp.of(document) for _, todo, _, _ in self.under_way for document in todo}
        wanted = [False] * len(documents)
        latest: dict[str, int] = {}
        for at, document in enumerate(documents):
            before = latest.get(document.doc_id)
            stamp = Stamp.of(documents[before]) if before is not None else stamps.get(document.doc_id)
            if stamp is not None and stamp == self.last.get(document.doc_id):
                continue  # a later one of this id wins, and that is stored
            if stamp is None or (stamp != Stamp.of(document) and stamp.revision <= document.revision):
                wanted[at] = True
                latest[document.doc_id] = at
                if before is not None:
                    wanted[before] = False
        return wanted

    def _patience(self, documents: Sequence[Document]) -> AbstractContextManager[None]:
        """Say why progress stands still, where one document is the reason."""
        longest = max(documents, key=lambda document: len(document.content))
        characters = len(longest.content)
        if characters < _LONG:
            return nullcontext()
        return self.console.if_slow(f"encoding {longest.doc_id}, one document of {characters:,} characters …")

    def _end(self) -> None:
        chunk, documents, records, encoding = self.under_way.popleft()
        outcome = StoringOutcome()
        if encoding is not None:
            with self._patience(documents):
                encoded = encoding.result()
            if self.beside:
                outcome = put_beside(self.store, self.encoder, documents, encoded)
            else:
                outcome = put_encoded(self.store, self.encoder.spec.model, documents, encoded)
        self.ledger.done(chunk, outcome.stored, outcome.notes)
        self.progress(records)


def _last_stamps(sources: Sequence[str], options: ReadOptions, doc_ids: Collection[str]) -> dict[str, Stamp]:
    """What counts of each of some ids, the last of the highest revision: read once more where there are such ids."""
    if not doc_ids:
        return {}
    last: dict[str, Stamp] = {}
    for document in documents_with(doc_ids, sources, options):
        before = last.get(document.doc_id)
        if before is None or before.revision <= document.revision:
            last[document.doc_id] = Stamp.of(document)
    return last
