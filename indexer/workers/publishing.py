"""Read sources once, write their chunks into the ledger, documents and all, and let workers begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import sqlalchemy as sa

from encoders.console import Console, Progress
from encoders.document import Document, EncoderSpec, short_hash
from indexer.indexing.reading import Batch, batches, check_sources, count_ahead, readings
from indexer.ledger.ledger import Ledger
from indexer.ledger.tables import READING
from indexer.readers import ReadOptions
from indexer.stores.contract import Stamp, VectorStore
from indexer.workers.spool import packed, unpacked


def spool(
    sources: Sequence[str],
    options: ReadOptions,
    spec: EncoderSpec,
    store: VectorStore,
    engine: sa.Engine,
    collection: str,
    *,
    generation: int = 1,
    prune: bool = False,
    console: Console,
) -> Ledger:
    """Write every chunk of some sources into the ledger; nothing is encoded. Broken off, the same call goes on.

    Workers begin when the last chunk is written, so that of an id that stands twice only the document that counts is
    ever encoded, whoever is slow or comes back from the dead.

    Args:
        sources: files, folders, ``elastic:URL``, ``ir-datasets:NAME``.
        options: how to read them.
        spec: of the encoder that workers must have.
        store: what is there already.
        engine: database of the ledger.
        collection: name the run is kept under.
        generation: of the collection, which the store is of.
        prune: at the end remove what the sources do not have any more.
        console: where progress goes.

    Raises:
        BadInput: a source can't be read at all; or workers are at another run of this collection.
        StoreError: store or ledger failed.
    """
    mark = short_hash(check_sources(sources, options), str(generation))
    ledger = Ledger.open(
        engine, collection, sources, mark, spec.model, spec.build, spooled=True, generation=generation, prune=prune
    )
    if ledger.run.state != READING:
        return ledger
    store.create(spec.model, spec.dim)
    with console.progress("reading", None, "documents") as progress:
        if not console.quiet:
            count_ahead(sources, options, progress)
        hand_out(batches(readings(sources, options)), spec.model, store, ledger, progress)
    return ledger


def hand_out(
    chunks: Iterable[Batch],
    model: str,
    store: VectorStore,
    ledger: Ledger,
    progress: Progress,
    pack: Callable[[Sequence[Document]], bytes] = packed,
) -> None:
    """Write chunks into a ledger, each with what is new or changed in it, and let workers begin at the last.

    Args:
        chunks: from the first on, those too that the ledger has from a call that was broken off.
        model: of the workers' encoder.
        store: what is there already.
        ledger: of a run for workers.
        progress: told the records of each.
        pack: what workers shall find of a chunk's documents.
    """
    for batch in chunks:
        if ledger.recall(batch.number, batch.digest) is None:
            stamps = store.stamps(model, batch.doc_ids)
            earlier = _earlier(ledger, batch.doc_ids)
            todo, beaten = flags(batch.documents, stamps, earlier)
            ledger.plan(
                batch.number,
                todo,
                batch.digest,
                batch.doc_ids,
                batch.notes,
                spool=pack(batch.documents),
                beaten={doc_id: (earlier[doc_id][0], positions) for doc_id, positions in beaten.items()},
            )
        progress(batch.records)
    ledger.release()


Earlier = tuple[int, Sequence[tuple[int, Document]]]
"""A chunk's number, and the documents of one id in it with their positions."""


def flags(
    documents: Sequence[Document], stamps: Mapping[str, Stamp], earlier: Mapping[str, Earlier]
) -> tuple[list[bool], dict[str, list[int]]]:
    """Which documents of a chunk to encode, and which of earlier chunks not any more.

    Of one id the document with the highest revision counts, the last of those. It is encoded unless it is stored so.

    Args:
        documents: of the chunk.
        stamps: what is stored, by id.
        earlier: what the run has of these ids already.

    Returns:
        A flag a document; and positions in the earlier chunk, by id, that this chunk's document has beaten.
    """
    counting: dict[str, int] = {}
    for at, document in enumerate(documents):
        before = counting.get(document.doc_id)
        if before is None or documents[before].revision <= document.revision:
            counting[document.doc_id] = at
    wanted = [False] * len(documents)
    beaten = {}
    for doc_id, at in counting.items():
        document, stored = documents[at], stamps.get(doc_id)
        if doc_id in earlier:
            same = earlier[doc_id][1]
            if any(other.revision > document.revision for _, other in same):
                continue
            beaten[doc_id] = [position for position, _ in same]
        wanted[at] = stored is None or (stored != Stamp.of(document) and stored.revision <= document.revision)
    return wanted, beaten


def _earlier(ledger: Ledger, doc_ids: Sequence[str]) -> dict[str, Earlier]:
    numbers = ledger.seen_in(doc_ids)
    chunks = {number: unpacked(ledger.spooled(number)) for number in set(numbers.values())}
    return {
        doc_id: (
            number,
            [(at, document) for at, document in enumerate(chunks[number]) if document.doc_id == doc_id],
        )
        for doc_id, number in numbers.items()
    }
