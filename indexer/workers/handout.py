"""Read sources once, write their chunks with all documents into the ledger, and let workers begin."""

from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sa

from encoders.console import Console, Progress
from encoders.document import Document, EncoderSpec
from encoders.errors import BadInput
from indexer.indexing.duplicates import OnDuplicate, survey, without_losers
from indexer.indexing.reading import read_chunks, readings, run_fingerprint
from indexer.indexing.storing import needs_encoding
from indexer.ledger.ledger import Ledger, ReadChunk
from indexer.ledger.spool import pack
from indexer.ledger.tables import READING
from indexer.readers.records.source import ReadOptions
from indexer.stores.contract import VectorStore


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
    on_duplicate: OnDuplicate = "error",
    console: Console,
) -> Ledger:
    """Write every chunk of the sources into the ledger, without encoding; after an interruption, the same call resumes.

    Workers begin when the last chunk is written. With ``prune``, documents missing from the sources are removed at the
    end. Raises BadInput: a source can't be read at all, another run is in progress, or as in ``survey``.
    """
    fingerprint = run_fingerprint(sources, options, generation, on_duplicate)
    ledger = Ledger.open(
        engine, collection, sources, fingerprint, spec.model, spec.build,
        spooled=True, generation=generation, prune=prune, encoding=options.encoding,
    )  # fmt: skip
    if ledger.run.state != READING:
        return ledger
    try:
        content = survey(sources, options, on_duplicate, console)
    except BadInput:
        ledger.abandon()
        raise
    store.create(spec.model, spec.dim)
    with console.progress("reading", content.records, "documents") as progress:
        chunks = read_chunks(without_losers(readings(sources, options), content.winners))
        hand_out_chunks(chunks, spec.model, store, ledger, progress)
    return ledger


def hand_out_chunks(
    chunks: Iterable[ReadChunk],
    model: str,
    store: VectorStore,
    ledger: Ledger,
    progress: Progress,
    pack_documents: Callable[[Sequence[Document]], bytes] = pack,
) -> None:
    """Write all chunks, from the first, with their new and changed documents into a ledger; workers begin at the end.

    ``progress`` is called with each chunk's number of records; ``pack_documents`` packs its documents for workers.
    """
    for read_chunk in chunks:
        if ledger.recall(read_chunk) is None:
            stamps = store.stamps(model, read_chunk.doc_ids)
            todo = [needs_encoding(document, stamps.get(document.doc_id)) for document in read_chunk.documents]
            ledger.plan(read_chunk, todo, spool=pack_documents(read_chunk.documents))
        progress(read_chunk.records)
    ledger.start_workers()
