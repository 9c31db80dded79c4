"""The sample of a migration: some documents and their first passages, encoded by both encoders."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import numpy as np

from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.errors import BadInput
from encoders.wording import counted
from indexer.stores.contract import VectorStore
from query.fitting.sampling import drawn
from query.fitting.statistics import pseudo_queries
from query.migration.candidate_maps import FEWEST, PairedSample

Spans = Literal["old", "new"]
"""Whose passages are encoded by the other encoder, too."""

_TOGETHER = 64
_TRIED = 32
_FAR_QUICKER = 2.0
"""Times: less would leave it to chance whose passages a sample has."""
_PASSAGES = 8
"""Of a document of the sample, at most: they teach more than as many documents would (docs/methods.md)."""


def both_of(
    store: VectorStore, old: Encoder, new: Encoder, sample: int, seed: int, console: Console
) -> dict[str, PairedSample]:
    """A sample of a collection's documents, as many of each language as there can be, by language.

    Args:
        store: holds the documents and the old encoder's vectors.
        old: the encoder they are of.
        new: the other one.
        sample: documents over all languages.
        seed: of the draw.
        console: where progress goes.

    Raises:
        BadInput: there are too few to learn a map from.
    """
    doc_ids = drawn(store, old.spec.model, sample, seed=seed)
    count = sum(map(len, doc_ids.values()))
    if count < FEWEST:
        raise BadInput(
            f"the sample has {counted(count, 'document')}, and a map needs {FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    taken = {lang: store.get(some) for lang, some in doc_ids.items()}
    spans = _spans(store, old, new, taken)
    with console.progress("sample", count, "documents") as advance:
        return {lang: _both(store, old, new, some, spans, advance) for lang, some in taken.items()}


def _spans(store: VectorStore, old: Encoder, new: Encoder, taken: Mapping[str, Sequence[Document]]) -> Spans:
    """The new encoder's, which come with its documents, unless they are fewer or it is far quicker than the old one."""
    some = [document for row in zip_longest(*taken.values()) for document in row if document][:_TRIED]
    seconds = list[float]()
    passages = [store.passages(old.spec.model, [document.doc_id for document in some])]
    for encoder in (old, new):
        encoder.encode_documents(some[:1])  # what a first call prepares
        began = time.perf_counter()
        passages.append(list(encoder.encode_documents(some).passages))
        seconds.append(time.perf_counter() - began)
    fewer = _count(passages[-1]) < _count(passages[0])
    return "old" if fewer or seconds[0] > _FAR_QUICKER * seconds[1] else "new"


def _count(passages: Sequence[Passages]) -> int:
    return sum(len(one.offsets[:_PASSAGES]) for one in passages)


def _both(
    store: VectorStore, old: Encoder, new: Encoder, documents: Sequence[Document], spans: Spans, advance: Progress
) -> PairedSample:
    """Documents of one language and their first passages, those of one encoder, by both."""
    doc_ids = [document.doc_id for document in documents]
    stored = store.passages(old.spec.model, doc_ids) if spans == "old" else ()
    rows, vectors, by_old, by_new = list[int](), list[FloatArray](), [_none(old)], [_none(new)]
    for start in range(0, len(documents), _TOGETHER):
        some = documents[start : start + _TOGETHER]
        made = new.encode_documents(some)
        passages = stored[start : start + _TOGETHER] if spans == "old" else made.passages
        pieces = _pieces(some, passages)
        kept = [one.unit_vectors()[:_PASSAGES] for one in passages]
        own, other, encoder = (by_old, by_new, new) if spans == "old" else (by_new, by_old, old)
        own += kept
        other += [encoder.encode_documents(pieces).vectors] if pieces else []
        rows += [start + row for row, one in enumerate(passages) for _ in one.offsets[:_PASSAGES]]
        vectors.append(made.vectors)
        advance(len(some))
    return PairedSample(
        documents,
        store.vectors(old.spec.model, doc_ids),
        np.concatenate(vectors),
        _asked(old, documents),
        _asked(new, documents),
        np.array(rows, dtype=np.intp),
        np.concatenate(by_old),
        np.concatenate(by_new),
    )


def _none(encoder: Encoder) -> FloatArray:
    return np.zeros((0, encoder.spec.dim), np.float32)


def _pieces(documents: Sequence[Document], passages: Sequence[Passages]) -> list[Document]:
    """The first passages of documents as documents."""
    return [
        Document(document.doc_id, document.lang, document.content[start:end])
        for document, one in zip(documents, passages, strict=True)
        for start, end in one.offsets[:_PASSAGES].tolist()
    ]


def _asked(encoder: Encoder, documents: Sequence[Document]) -> FloatArray:
    """Documents' pseudo-queries; zero rows where a document has none of its own."""
    asked = pseudo_queries(documents)
    row = {document.doc_id: at for at, document in enumerate(documents)}
    vectors = np.zeros((len(documents), encoder.spec.dim), np.float32)
    if asked:
        vectors[[row[query.doc_id] for query in asked]] = encoder.encode_queries(asked)
    return vectors
