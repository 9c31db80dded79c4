"""Read sources once, write their chunks with all documents into the ledger, and let workers begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sa

from encoders.console import Console, Progress
from encoders.document import Document, EncoderSpec
from indexer.indexing.duplicates import warn_of_duplicates
from indexer.indexing.reading import count_ahead, read_chunks, readings, run_fingerprint
from indexer.indexing.wanted_documents import EarlierDocuments, OnDuplicate, wanted_for_workers
from indexer.ledger.ledger import Ledger, ReadChunk
from indexer.ledger.tables import READING
from indexer.readers.source import ReadOptions
from indexer.stores.contract import VectorStore
from indexer.workers.spool import pack, unpack


def hand_out_sources(
    sources: Sequence[str],
    options: ReadOptions,
    spec: EncoderSpec,
    store: VectorStore,
    engine: sa.Engine,
    collection: str,
    *,
    generation: int = 1,
    prune: bool = False,
    on_duplicate: OnDuplicate = "last",
    console: Console,
) -> Ledger:
    """Write every chunk of the sources into the ledger, without encoding; after an interruption, the same call resumes.

    Workers begin when the last chunk is written. So of an id that occurs twice, only the document that counts is ever
    encoded, even by a worker that is slow or was taken for dead. With ``prune``, documents that the sources do not have
    any more are removed at the end. Of documents with one id and the highest revision, the last or the ``"first"``
    counts (``on_duplicate``).

    Raises:
        BadInput: a source can't be read at all, or another run of this collection is in progress.
        StoreError: the store or the ledger failed.
    """
    fingerprint = run_fingerprint(sources, options, generation, on_duplicate)
    ledger = Ledger.open(
        engine, collection, sources, fingerprint, spec.model, spec.build,
        spooled=True, generation=generation, prune=prune,
    )  # fmt: skip
    if ledger.run.state != READING:
        return ledger
    store.create(spec.model, spec.dim)
    with console.progress("reading", None, "documents") as progress:
        if not console.quiet:
            count_ahead(sources, options, progress)
        chunks = read_chunks(readings(sources, options))
        hand_out_chunks(chunks, spec.model, store, ledger, progress, on_duplicate=on_duplicate)
    warn_of_duplicates(ledger.findings(), on_duplicate, console)
    return ledger


def hand_out_chunks(
    chunks: Iterable[ReadChunk],
    model: str,
    store: VectorStore,
    ledger: Ledger,
    progress: Progress,
    pack_documents: Callable[[Sequence[Document]], bytes] = pack,
    *,
    on_duplicate: OnDuplicate = "last",
) -> None:
    """Write chunks with their new and changed documents into a ledger; workers begin after the last chunk.

    ``chunks`` are all chunks from the first, even those that an interrupted call has already written. ``progress`` is
    called with the number of records of each chunk, and ``pack_documents`` packs a chunk's documents for the workers.
    """
    for read_chunk in chunks:
        if ledger.recall(read_chunk) is None:
            stamps = store.stamps(model, read_chunk.doc_ids)
            earlier = _earlier(ledger, read_chunk.doc_ids)
            todo, superseded = wanted_for_workers(read_chunk.documents, stamps, earlier, on_duplicate)
            earlier_positions = {doc_id: (earlier[doc_id].chunk, positions) for doc_id, positions in superseded.items()}
            ledger.plan(read_chunk, todo, spool=pack_documents(read_chunk.documents), superseded=earlier_positions)
        progress(read_chunk.records)
    ledger.start_workers()


def _earlier(ledger: Ledger, doc_ids: Sequence[str]) -> dict[str, EarlierDocuments]:
    numbers = ledger.seen_in(doc_ids)
    chunks = {number: unpack(ledger.spool_of(number)) for number in set(numbers.values())}
    return {
        doc_id: EarlierDocuments(
            number,
            [(position, document) for position, document in enumerate(chunks[number]) if document.doc_id == doc_id],
        )
        for doc_id, number in numbers.items()
    }
