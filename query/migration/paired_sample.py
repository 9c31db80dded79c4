"""The sample of a migration: documents and their first passages, encoded by both encoders."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, Passages, encode_in_batches, unit_rows
from encoders.errors import BadInput
from encoders.phrases import counted
from indexer.stores.contract import VectorStore, read_existing
from query.calibration_fitting.document_samples import draw
from query.calibration_fitting.language_statistics import pseudo_queries
from query.migration.candidate_maps import PairedSample

FEWEST = 50
"""Minimum documents to learn a map from, and minimum pseudo-queries of advice without a warning."""
_BATCH = 64
_PASSAGES = 8
"""Maximum passages of a document: passages teach a map more than as many documents would (docs/methods/mappings.md)."""


def paired_sample(
    store: VectorStore, old: Encoder, new: Encoder, count: int, seed: int, console: Console
) -> PairedSample:
    """Draw ``count`` documents evenly over languages; both encode them. Raises BadInput: they are too few for a map.

    The passages are the new encoder's, or the stored passages if these are more.
    """
    model = old.spec.model
    doc_ids = [doc_id for of_lang in draw(store, model, count, seed=seed).values() for doc_id in of_lang]
    existing = read_existing(store.get, doc_ids)
    old_vectors = read_existing(partial(store.vectors, model), list(existing))
    stored = read_existing(partial(store.passages, model), list(old_vectors))
    documents = [existing[doc_id] for doc_id in stored]
    if len(documents) < FEWEST:
        raise BadInput(
            f"the sample has {counted(len(documents), 'document')}, and a map needs {FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    new_vectors, passages = _encoded(new, documents, console, "documents")
    old_passages = [_first(of_document) for of_document in stored.values()]
    cutter, other = new, old
    if sum(_counts(passages)) < sum(_counts(old_passages)):
        cutter, other, passages = old, new, old_passages
    pieces = [
        Document(
            document.doc_id,
            document.lang,
            document.content[start:end],
            document.title if cutter.spec.titled and start >= len(document.title) > 0 else "",
        )
        for document, of_document in zip(documents, passages, strict=True)
        for start, end in of_document.offsets.tolist()
    ]
    by_cutter = unit_rows(np.concatenate([of_document.vectors for of_document in passages]))
    by_other, _ = _encoded(other, pieces, console, "passages")
    return PairedSample(
        documents,
        np.stack([old_vectors[doc_id] for doc_id in stored]),
        new_vectors,
        _pseudo_query_vectors(old, documents),
        _pseudo_query_vectors(new, documents),
        np.repeat(np.arange(len(documents)), _counts(passages)),
        *((by_cutter, by_other) if cutter is old else (by_other, by_cutter)),
    )


def _encoded(
    encoder: Encoder, documents: Sequence[Document], console: Console, noun: str
) -> tuple[FloatArray, list[Passages]]:
    """(n, dim) vectors of documents, and the first passages of each."""
    vectors, passages = [np.zeros((0, encoder.spec.dim), np.float32)], list[Passages]()
    with console.progress("sample", len(documents), noun) as advance:
        for _, encoded in encode_in_batches(encoder, documents, _BATCH, advance):
            vectors.append(encoded.vectors)
            passages += map(_first, encoded.passages)
    return np.concatenate(vectors), passages


def _first(passages: Passages) -> Passages:
    return Passages(passages.vectors[:_PASSAGES], passages.offsets[:_PASSAGES])


def _counts(passages: Sequence[Passages]) -> list[int]:
    return [len(of_document.offsets) for of_document in passages]


def _pseudo_query_vectors(encoder: Encoder, documents: Sequence[Document]) -> FloatArray:
    """(n, dim) vectors of the documents' pseudo-queries; a zero row if a document has none of its own."""
    rows = {document.doc_id: row for row, document in enumerate(documents)}
    by_lang = groupby(documents, lambda document: document.lang)
    queries = [query for _, of_lang in by_lang for query in pseudo_queries(list(of_lang))]
    vectors = np.zeros((len(documents), encoder.spec.dim), np.float32)
    if queries:
        vectors[[rows[query.doc_id] for query in queries]] = encoder.encode_queries(queries)
    return vectors
