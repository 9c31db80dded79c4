"""Index a collection in this process: read → encode → store, chunk by chunk; a killed run resumes without loss."""

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from encoders.console import QUIET, Console, Progress
from encoders.document import Document, Encoded, Encoder
from encoders.phrases import counted
from indexer.indexing import pruning
from indexer.indexing.duplicates import OnDuplicate, survey, without_losers
from indexer.indexing.encoding_queue import EncodingQueue
from indexer.indexing.reading import read_chunks, readings, run_fingerprint
from indexer.indexing.storing import StoringOutcome, add_vectors, needs_encoding, put_encoded
from indexer.ledger.findings import Finding
from indexer.ledger.index_runs import RunLedger
from indexer.ledger.ledger import Ledger, ReadChunk
from indexer.ledger.tables import DONE, REFUSED, REMARK, Chunk
from indexer.readers.records.source import ReadOptions
from indexer.stores.contract import VectorStore


@dataclass(frozen=True)
class RunReport:
    """What a run did."""

    run: int  # number of the run in the ledger
    resumed: bool  # whether an earlier call began the run
    encoded: int  # documents encoded and stored
    unchanged: int  # documents that were already stored with this text
    refused: list[Finding]  # what could not be indexed, with the reasons
    seconds: float  # time spent by this process


@dataclass(frozen=True)
class IndexReport(RunReport):
    """What an index run did since it began.

    Attributes:
        pruned: documents removed because no source has them any more.
        duplicates: ids that more than one document of the sources has; one document of each counts.
    """

    remarks: list[Finding]
    pruned: int
    duplicates: int


def report_of(ledger: RunLedger, seconds: float) -> IndexReport:
    """Report of a run, from its ledger; ``seconds`` is the time spent by this process."""
    findings = ledger.findings()
    run = ledger.run
    return IndexReport(
        run=run.id,
        resumed=ledger.resumed,
        encoded=run.encoded,
        unchanged=run.unchanged,
        refused=[finding for finding in findings if finding.kind == REFUSED],
        remarks=[finding for finding in findings if finding.kind == REMARK],
        pruned=run.pruned,
        duplicates=len({finding.doc_id for finding in findings if finding.is_duplicate}),
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
    on_duplicate: OnDuplicate = "error",
    checkpoints: Path | None = None,
    console: Console = QUIET,
) -> IndexReport:
    """Read sources, encode new and changed documents, store them; returns the report of the run.

    The ledger records each chunk before work on it, and again when it is stored: after a kill, the same call resumes
    there and writes what the first call would have written. A run is resumed only in its own generation. With
    ``prune``, documents missing from the sources are removed at the end. ``checkpoints`` keeps what is encoded of very
    long documents until the run is done. Raises BadInput: a source can't be read at all, or as in ``survey``;
    StoreError: the store or the ledger failed; finished work stays stored.
    """
    started = time.monotonic()
    fingerprint = run_fingerprint(sources, options, generation, on_duplicate)
    content = survey(sources, options, on_duplicate, console)
    ledger = Ledger.open(
        engine, collection, sources, fingerprint, encoder.spec.model, encoder.spec.build,
        generation=generation, encoding=options.encoding,
    )  # fmt: skip
    with console.progress("indexing", content.records, "documents") as progress:
        chunks = read_chunks(without_losers(readings(sources, options), content.winners))
        Pipeline(encoder, store, ledger, console, progress, checkpoints=checkpoints).run(chunks)
    pruned = pruning.prune(ledger, store, console) if prune else 0
    if store.count():  # an empty index must not take the place of the searched one
        store.publish()
    ledger.finish(pruned)
    return report_of(ledger, time.monotonic() - started)


class _PlannedChunk(NamedTuple):
    """A chunk in the ledger, its documents to encode, and the number of its records."""

    chunk: Chunk
    todo: list[Document]
    records: int


class Pipeline:
    """Plans chunks in a ledger, and stores them in order when they are encoded.

    With ``reencoding``, another encoder's vectors are added to the store's own documents.
    """

    def __init__(
        self,
        encoder: Encoder,
        store: VectorStore,
        ledger: Ledger,
        console: Console,
        progress: Progress,
        *,
        reencoding: bool = False,
        checkpoints: Path | None = None,
    ) -> None:
        self.encoder, self.store, self.ledger, self.console = encoder, store, ledger, console
        self.progress, self.reencoding, self.checkpoints = progress, reencoding, checkpoints

    def run(self, chunks: Iterable[ReadChunk]) -> None:
        """Plan, encode and store chunks; a chunk that the ledger has as done is skipped."""
        self.store.create(self.encoder.spec.model, self.encoder.spec.dim)
        if self.ledger.resumed:
            run = self.ledger.run
            done = counted(run.encoded + run.unchanged, "document is", "documents are")
            self.console.say(f"going on with run {run.id}: {done} done")
        with EncodingQueue(self.encoder, self._finish, self.console, self.checkpoints) as queue:
            for read_chunk in chunks:
                self._begin(read_chunk, queue)
            queue.finish_all()
        if self.checkpoints:
            shutil.rmtree(self.checkpoints, ignore_errors=True)  # those of runs that were given up

    def _begin(self, read_chunk: ReadChunk, queue: EncodingQueue[_PlannedChunk]) -> None:
        chunk = self.ledger.recall(read_chunk)
        if chunk is None:
            stamps = self.store.stamps(self.encoder.spec.model, read_chunk.doc_ids)
            todo_flags = [needs_encoding(document, stamps.get(document.doc_id)) for document in read_chunk.documents]
            chunk = self.ledger.plan(read_chunk, todo_flags)
        if chunk.state == DONE:
            self.progress(read_chunk.records)
            return
        todo = [document for document, wanted in zip(read_chunk.documents, chunk.todo, strict=True) if wanted]
        queue.add(_PlannedChunk(chunk, todo, read_chunk.records), todo)

    def _finish(self, planned: _PlannedChunk, encoded: Encoded | None) -> None:
        outcome = StoringOutcome()
        if encoded is not None:
            if self.reencoding:
                outcome = add_vectors(self.store, self.encoder, planned.todo, encoded)
            else:
                outcome = put_encoded(self.store, self.encoder.spec.model, planned.todo, encoded)
        self.ledger.done(planned.chunk, outcome.stored, outcome.refused)
        self.progress(planned.records)
