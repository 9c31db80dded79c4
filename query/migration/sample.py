"""The sample of a migration: documents and their first passages, encoded by both encoders."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from encoders.batches import encode_in_batches
from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.stores.contract import VectorStore, read_existing
from query.fitting.sampling import draw
from query.fitting.statistics import pseudo_queries
from query.migration.candidate_maps import PairedSample

FEWEST = 50
"""Minimum documents to learn a map from, and minimum pseudo-queries of advice without a warning."""
_BATCH = 64
_TIMED = 32
_FAR_QUICKER = 2.0
"""Least ratio of encoding times that decides whose passages are taken: a smaller one would leave it to chance."""
_PASSAGES = 8
"""Maximum passages of a document: passages teach a map more than as many documents would (docs/methods/mappings.md)."""


def paired_sample(
    store: VectorStore, old: Encoder, new: Encoder, count: int, seed: int, console: Console
) -> PairedSample:
    """Draw ``count`` of a collection's documents, evenly over its languages; both encoders encode them.

    Raises:
        BadInput: the sample has too few documents to learn a map from.
    """
    model = old.spec.model
    doc_ids = [doc_id for of_lang in draw(store, model, count, seed=seed).values() for doc_id in of_lang]
    if len(doc_ids) < FEWEST:
        raise BadInput(
            f"the sample has {counted(len(doc_ids), 'document')}, and a map needs {FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    documents = read_existing(store.get, doc_ids)
    old_vectors = read_existing(partial(store.vectors, model), list(documents))
    stored = read_existing(partial(store.passages, model), list(old_vectors))
    existing = [documents[doc_id] for doc_id in stored]
    cutter = _cutter(old, new, existing[:: max(1, len(existing) // _TIMED)][:_TIMED], stored)
    other = new if cutter is old else old
    vectors, counts = [_empty(new)], list[int]()
    by_cutter, by_other = [_empty(cutter)], [_empty(other)]
    with console.progress("sample", len(existing), "documents") as advance:
        for batch, encoded in encode_in_batches(new, existing, _BATCH, advance):
            cut = [stored[document.doc_id] for document in batch] if cutter is old else encoded.passages
            first = [Passages(passages.vectors[:_PASSAGES], passages.offsets[:_PASSAGES]) for passages in cut]
            pieces = _pieces(batch, first, titled=cutter.spec.titled)
            by_cutter += [passages.unit_vectors() for passages in first]
            by_other += [other.encode_documents(pieces).vectors] if pieces else []
            counts += [len(passages.offsets) for passages in first]
            vectors.append(encoded.vectors)
    own, others = np.concatenate(by_cutter), np.concatenate(by_other)
    return PairedSample(
        existing,
        np.array([old_vectors[doc_id] for doc_id in stored], dtype=np.float32).reshape(-1, old.spec.dim),
        np.concatenate(vectors),
        _pseudo_query_vectors(old, existing),
        _pseudo_query_vectors(new, existing),
        np.repeat(np.arange(len(existing)), counts),
        *((own, others) if cutter is old else (others, own)),
    )


def _cutter(old: Encoder, new: Encoder, timed: Sequence[Document], stored: dict[str, Passages]) -> Encoder:
    """Choose the encoder whose passages are taken; the other encodes them too.

    The new encoder's passages come with its document vectors. The old encoder's are taken if the new encoder makes
    fewer, or is far quicker than the old encoder.
    """
    old_seconds, _ = _timed(old, timed)
    new_seconds, of_new = _timed(new, timed)
    fewer = _count(of_new) < _count(stored[document.doc_id] for document in timed)
    return old if fewer or old_seconds > _FAR_QUICKER * new_seconds else new


def _timed(encoder: Encoder, documents: Sequence[Document]) -> tuple[float, Sequence[Passages]]:
    """Seconds that an encoder takes for documents, and their passages."""
    encoder.encode_documents(documents[:1])  # warms the encoder up
    start = time.perf_counter()
    passages = encoder.encode_documents(documents).passages
    return time.perf_counter() - start, passages


def _count(passages: Iterable[Passages]) -> int:
    return sum(len(of_document.offsets[:_PASSAGES]) for of_document in passages)


def _empty(encoder: Encoder) -> FloatArray:
    """(0, dim) vectors of an encoder."""
    return np.zeros((0, encoder.spec.dim), np.float32)


def _pieces(documents: Sequence[Document], passages: Sequence[Passages], *, titled: bool) -> list[Document]:
    """The documents' passages, each as a document; ``titled``: with the title, where it was read before them."""
    return [
        Document(
            document.doc_id,
            document.lang,
            document.content[start:end],
            document.title if titled and start >= len(document.title) > 0 else "",
        )
        for document, of_document in zip(documents, passages, strict=True)
        for start, end in of_document.offsets.tolist()
    ]


def _pseudo_query_vectors(encoder: Encoder, documents: Sequence[Document]) -> FloatArray:
    """(n, dim) vectors of the documents' pseudo-queries; a zero row if a document has none of its own."""
    by_lang: dict[str, list[Document]] = {}
    for document in documents:
        by_lang.setdefault(document.lang, []).append(document)
    queries = [query for of_lang in by_lang.values() for query in pseudo_queries(of_lang)]
    rows = {document.doc_id: row for row, document in enumerate(documents)}
    vectors = np.zeros((len(documents), encoder.spec.dim), np.float32)
    if queries:
        vectors[[rows[query.doc_id] for query in queries]] = encoder.encode_queries(queries)
    return vectors
