"""Index a collection in this process: read → encode → put, chunk by chunk, killed and resumed without loss."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version

import sqlalchemy as sa

from encoders.console import Console, Progress
from encoders.document import Document, Encoded, Encoder, short_hash
from encoders.errors import StoreError
from encoders.languages import UNDETERMINED
from indexer.detection import Detector
from indexer.ledger import DONE, REFUSED, REMARK, Chunk, Ledger, Note
from indexer.readers import Reading, ReadOptions, Refusal, Remark, count_records, fingerprint, read
from indexer.readers.irdatasets import PREFIX
from indexer.stores.contract import Stamp, StoredDocument, VectorStore

CHUNK_DOCUMENTS = 64
CHUNK_CHARACTERS = 1_000_000
NOTHING_KNOWN = "it has nothing the encoder knows"
"""Why a document is refused of which no part of the encoder knows anything."""
_CHUNKING = "1"
"""Counted up when readers or chunks cut the same sources otherwise: a run begun before is not gone on with then."""
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


@dataclass(frozen=True)
class _Batch:
    """A chunk's documents with what was met while reading them."""

    number: int
    documents: list[Document]
    notes: list[Note]
    records: int


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
        console.say(
            f"going on with run {ledger.run.id}: {ledger.run.encoded + ledger.run.unchanged:,} documents are done"
        )
    with console.progress("indexing", None, "documents") as progress:
        if not console.quiet:
            _count_ahead(sources, options, progress)
        last = _last_stamps(sources, options, ledger.repeated())
        _Work(encoder, store, ledger, last, console, progress).run(_batches(_detected(_readings(sources, options))))
    pruned = _prune(ledger, store, console) if prune else 0
    store.publish()
    ledger.finish(pruned)
    notes = ledger.findings()
    return IndexReport(
        run=ledger.run.id,
        resumed=ledger.resumed,
        encoded=ledger.run.encoded,
        unchanged=ledger.run.unchanged,
        refused=[note for note in notes if note.kind == REFUSED],
        remarks=[note for note in notes if note.kind == REMARK],
        pruned=pruned,
        seconds=time.monotonic() - started,
    )


def check_sources(sources: Sequence[str], options: ReadOptions) -> str:
    """See that every source is there before anything is made; returns what identifies them, unchanged as they are.

    Raises:
        BadInput: one is not there, or the options can't be used.
    """
    return short_hash(_CHUNKING, version("dragoman"), *(fingerprint(source, options) for source in sources))


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
    ) -> None:
        self.encoder, self.store, self.ledger, self.last = encoder, store, ledger, last
        self.console, self.progress = console, progress
        self.under_way: deque[tuple[Chunk, list[Document], int, Future[Encoded] | None]] = deque()

    def run(self, batches: Iterable[_Batch]) -> None:
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

    def _begin(self, batch: _Batch, submit: Callable[..., Future[Encoded]]) -> None:
        chunk = self.ledger.chunk(batch.number)
        digest = short_hash(*(part for document in batch.documents for part in (document.doc_id, document.text_hash)))
        if chunk is None:
            chunk = self.ledger.plan(
                batch.number,
                self._todo(batch.documents),
                digest,
                [document.doc_id for document in batch.documents],
                batch.notes,
            )
        if chunk.digest != digest:
            self.ledger.abandon()
            raise StoreError(
                f"run {self.ledger.run.id} can't go on: its sources are cut otherwise than when it began; "
                "give the same command again, it begins anew"
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
        notes = []
        stored = 0
        if encoding is not None:
            with self._patience(documents):
                encoded = encoding.result()
            unknown = [not encoded.known[at].any() for at in range(len(documents))]
            items = [
                StoredDocument.of(document, encoded, at) for at, document in enumerate(documents) if not unknown[at]
            ]
            report = self.store.put(self.encoder.spec.model, items)
            notes = [
                Note(REFUSED, document.doc_id, document.doc_id, NOTHING_KNOWN)
                for document, nothing in zip(documents, unknown, strict=True)
                if nothing
            ]
            notes += [Note(REFUSED, doc_id, doc_id, reason) for doc_id, reason in report.refused.items()]
            stored = report.stored
        self.ledger.done(chunk, stored, notes)
        self.progress(records)


def _readings(sources: Sequence[str], options: ReadOptions) -> Iterator[Reading]:
    for source in sources:
        yield from read(source, options)


def _detected(readings: Iterable[Reading]) -> Iterator[Reading]:
    """The same, every document with a language."""
    detector = None
    for reading in readings:
        if isinstance(reading, Document) and reading.lang == UNDETERMINED:
            detector = detector or Detector(None)
            yield replace(reading, lang=detector.detect(reading.content).lang)
        else:
            yield reading


def _last_stamps(sources: Sequence[str], options: ReadOptions, doc_ids: Collection[str]) -> dict[str, Stamp]:
    """What the last document of each of some ids is: the sources are read once more where there are such ids."""
    if not doc_ids:
        return {}
    readings = _readings(sources, options)
    repeated = (reading for reading in readings if isinstance(reading, Document) and reading.doc_id in doc_ids)
    return {one.doc_id: Stamp.of(one) for one in _detected(repeated) if isinstance(one, Document)}


def _batches(readings: Iterable[Reading]) -> Iterator[_Batch]:
    """Chunks by number of documents and of characters: where they end depends on the sources alone."""
    number = 0
    documents: list[Document] = []
    notes: list[Note] = []
    characters = records = 0
    for reading in readings:
        records += not isinstance(reading, Remark)
        match reading:
            case Document():
                documents.append(reading)
                characters += len(reading.content)
            case Refusal(where, reason, doc_id):
                notes.append(Note(REFUSED, where, doc_id, reason))
            case Remark(where, text):
                notes.append(Note(REMARK, where, "", text))
        if len(documents) == CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS or len(notes) >= CHUNK_DOCUMENTS:
            yield _Batch(number, documents, notes, records)
            number += 1
            documents, notes = [], []
            characters = records = 0
    if documents or notes:
        yield _Batch(number, documents, notes, records)


def _count_ahead(sources: Sequence[str], options: ReadOptions, progress: Progress) -> None:
    """Count the records in the background, so that the time left is known soon and the start does not wait."""

    def count() -> None:
        with suppress(StoreError):  # reading will say it
            progress.expect(sum(count_records(source, options) for source in sources))

    if any(source.startswith(PREFIX) for source in sources):
        return  # it may have to be fetched, and that once
    threading.Thread(target=count, name="count", daemon=True).start()


def _prune(ledger: Ledger, store: VectorStore, console: Console) -> int:
    """Remove what the sources lost; nothing while something of them could not be read, for it may be just that."""
    run = ledger.run
    others = {source for earlier in ledger.earlier() for source in earlier.sources} - set(run.sources)
    if others:
        console.warn(
            f"nothing is pruned, because the collection was indexed from {min(others)} too; "
            "name all its sources in one command"
        )
        return 0
    nameless = [note.place for note in ledger.findings() if note.kind == REFUSED and not note.doc_id]
    if nameless:
        console.warn(f"nothing is pruned, because {nameless[0]} and perhaps more could not be read; mend it first")
        return 0
    gone = ledger.unseen(store.ids())
    return store.delete(gone) if gone else 0
