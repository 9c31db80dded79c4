"""The sample of a migration: documents and their first passages, encoded by both encoders."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Literal

import numpy as np

from encoders.batches import encode_in_batches
from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.stores.contract import VectorStore, read_existing
from query.fitting.sampling import draw
from query.fitting.statistics import pseudo_queries
from query.migration.candidate_maps import FEWEST, PairedSample

Spans = Literal["old", "new"]
"""Which encoder's passages the sample takes; the other encoder encodes them too."""

_BATCH = 64
_TIMED = 32
_FAR_QUICKER = 2.0
"""Least ratio of encoding times that decides whose passages are taken: a smaller one would leave it to chance."""
_PASSAGES = 8
"""Maximum passages of a document: passages teach a map more than as many documents would (docs/methods/mappings.md)."""


def paired_samples(
    store: VectorStore, old: Encoder, new: Encoder, sample: int, seed: int, console: Console
) -> dict[str, PairedSample]:
    """Draw ``sample`` of a collection's documents, evenly over its languages, and encode them: by language.

    Raises:
        BadInput: the sample has too few documents to learn a map from.
    """
    doc_ids = draw(store, old.spec.model, sample, seed=seed)
    count = sum(map(len, doc_ids.values()))
    if count < FEWEST:
        raise BadInput(
            f"the sample has {counted(count, 'document')}, and a map needs {FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    documents = {lang: list(read_existing(store.get, ids).values()) for lang, ids in doc_ids.items()}
    spans = _spans(store, old, new, documents)
    with console.progress("sample", count, "documents") as advance:
        return {lang: _paired(store, old, new, of_lang, spans, advance) for lang, of_lang in documents.items()}


def _spans(store: VectorStore, old: Encoder, new: Encoder, documents: Mapping[str, Sequence[Document]]) -> Spans:
    """Choose the encoder whose passages are taken.

    The new encoder's passages come with its document vectors. The old encoder's are taken if the new encoder makes
    fewer, or is far quicker than the old encoder.
    """
    timed = [document for row in zip_longest(*documents.values()) for document in row if document][:_TIMED]
    seconds = list[float]()
    read_passages = partial(store.passages, old.spec.model)
    passages = [list(read_existing(read_passages, [document.doc_id for document in timed]).values())]
    for encoder in (old, new):
        encoder.encode_documents(timed[:1])  # warms the encoder up
        start = time.perf_counter()
        passages.append(list(encoder.encode_documents(timed).passages))
        seconds.append(time.perf_counter() - start)
    fewer = _count(passages[-1]) < _count(passages[0])
    return "old" if fewer or seconds[0] > _FAR_QUICKER * seconds[1] else "new"


def _count(passages: Sequence[Passages]) -> int:
    return sum(len(of_document.offsets[:_PASSAGES]) for of_document in passages)


def _paired(
    store: VectorStore, old: Encoder, new: Encoder, documents: Sequence[Document], spans: Spans, advance: Progress
) -> PairedSample:
    """Encode documents of one language, and their first passages as one of the encoders cuts them, by both encoders."""
    doc_ids = [document.doc_id for document in documents]
    old_vectors = read_existing(partial(store.vectors, old.spec.model), doc_ids)
    stored = read_existing(partial(store.passages, old.spec.model), list(old_vectors)) if spans == "old" else {}
    existing = stored if spans == "old" else old_vectors
    documents = [document for document in documents if document.doc_id in existing]
    rows, vectors, by_old, by_new = list[int](), [_empty(new)], [_empty(old)], [_empty(new)]
    start = 0
    for batch, encoded in encode_in_batches(new, documents, _BATCH, advance):
        passages = [stored[document.doc_id] for document in batch] if spans == "old" else encoded.passages
        cutter = old if spans == "old" else new
        pieces = _pieces(batch, passages, titled=cutter.spec.titled)
        first_passages = [of_document.unit_vectors()[:_PASSAGES] for of_document in passages]
        own, other, encoder = (by_old, by_new, new) if spans == "old" else (by_new, by_old, old)
        own += first_passages
        other += [encoder.encode_documents(pieces).vectors] if pieces else []
        rows += [start + row for row, of_document in enumerate(passages) for _ in of_document.offsets[:_PASSAGES]]
        vectors.append(encoded.vectors)
        start += len(batch)
    return PairedSample(
        documents,
        np.array([old_vectors[document.doc_id] for document in documents], dtype=np.float32).reshape(-1, old.spec.dim),
        np.concatenate(vectors),
        _pseudo_query_vectors(old, documents),
        _pseudo_query_vectors(new, documents),
        np.array(rows, dtype=np.intp),
        np.concatenate(by_old),
        np.concatenate(by_new),
    )


def _empty(encoder: Encoder) -> FloatArray:
    """(0, dim) vectors of an encoder."""
    return np.zeros((0, encoder.spec.dim), np.float32)


def _pieces(documents: Sequence[Document], passages: Sequence[Passages], *, titled: bool) -> list[Document]:
    """The documents' first passages, each as a document; ``titled``: with the title, where it was read before them."""
    return [
        Document(
            document.doc_id,
            document.lang,
            document.content[start:end],
            document.title if titled and start >= len(document.title) > 0 else "",
        )
        for document, of_document in zip(documents, passages, strict=True)
        for start, end in of_document.offsets[:_PASSAGES].tolist()
    ]


def _pseudo_query_vectors(encoder: Encoder, documents: Sequence[Document]) -> FloatArray:
    """(n, dim) vectors of the documents' pseudo-queries; a zero row if a document has none of its own."""
    queries = pseudo_queries(documents)
    rows = {document.doc_id: row for row, document in enumerate(documents)}
    vectors = np.zeros((len(documents), encoder.spec.dim), np.float32)
    if queries:
        vectors[[rows[query.doc_id] for query in queries]] = encoder.encode_queries(queries)
    return vectors
