"""Several encoders combined: their concatenated unit vectors, scaled to one unit vector.

The part of an encoder that knows nothing of a document is zero; ``encoders.methods.vector_parts`` compares vectors.
"""

from collections.abc import Sequence

import numpy as np

from encoders.document import (
    Document,
    Encoded,
    Encoder,
    EncoderSpec,
    FloatArray,
    HasQueryLimit,
    Int32Array,
    Passages,
    int8_rows,
    short_hash,
    unit_rows,
)
from encoders.errors import BadInput

SEPARATOR = " + "
"""Separates the names, and the methods, of combined encoders."""


def refuse_combined(encoder: str) -> None:
    """Check by its name that an encoder is not combined. Raises BadInput: it is."""
    if SEPARATOR in encoder:
        raise BadInput(f"combined vectors ({encoder}) can't be mapped yet; map a collection of one encoder")


class Combined:
    """The encoders' vectors, concatenated with equal weight.

    Passages are the first encoder's that has any. Every encoder contributes to a passage the vector of its own passage
    that shares the most text with it, or zeros if no passage does.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        """Combine two encoders or more. Raises BadInput: two encoders make the same vectors."""
        specs = [encoder.spec for encoder in encoders]
        if len({spec.model for spec in specs}) < len(specs):
            raise BadInput(
                f"{SEPARATOR.join(f'{spec.name} by {spec.method}' for spec in specs)} has the same vectors twice; "
                "combine encoders that differ"
            )
        self.encoders = tuple(encoders)
        languages = dict.fromkeys(lang for spec in specs for lang in spec.languages)
        self.spec = EncoderSpec(
            name=SEPARATOR.join(spec.name for spec in specs),
            method=SEPARATOR.join(spec.method for spec in specs),
            dim=sum(spec.dim for spec in specs),
            languages=tuple(languages) if all(spec.languages for spec in specs) else (),
            model=short_hash("combined", *(spec.model for spec in specs)),
            build=short_hash("combined", *(spec.build for spec in specs)),
            widths=tuple(spec.dim for spec in specs),
            titled=any(spec.titled for spec in specs),
        )

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents by every encoder; ``known`` has a column for each encoder."""
        parts = [encoder.encode_documents(documents) for encoder in self.encoders]
        widths = [encoder.spec.dim for encoder in self.encoders]
        vectors = unit_rows(np.concatenate([part.vectors for part in parts], axis=1))
        passages = [_combined([part.passages[row] for part in parts], widths) for row in range(len(documents))]
        return Encoded(vectors, passages, np.concatenate([part.known for part in parts], axis=1))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries by every encoder → (queries, dim) float32 unit rows; zeros where no encoder knows a query."""
        return unit_rows(np.concatenate([encoder.encode_queries(queries) for encoder in self.encoders], axis=1))

    def read_to(self, query: Document) -> int:
        """Number of characters of a query's content that the encoder with the longest input reads."""
        return max(
            encoder.read_to(query) if isinstance(encoder, HasQueryLimit) else len(query.content)
            for encoder in self.encoders
        )


def _combined(parts: Sequence[Passages], widths: Sequence[int]) -> Passages:
    """Combine the passages of one document that the encoders cut."""
    first = next((part for part in parts if len(part.offsets)), parts[0])
    offsets = first.without_title().offsets
    rows = np.zeros((len(first.offsets), sum(widths)), dtype=np.float32)
    start = 0
    for part, width in zip(parts, widths, strict=True):
        columns, vectors = slice(start, start + width), part.unit_vectors()
        for row, nearest in enumerate(nearest_spans(offsets, part.without_title().offsets)):
            if nearest is not None:
                rows[row, columns] = vectors[nearest]
        if first.has_title and part.has_title:
            rows[-1, columns] = vectors[-1]
        start += width
    return Passages(int8_rows(rows), first.offsets)


def nearest_spans(spans: Int32Array, others: Int32Array) -> list[int | None]:
    """For each span the index of the other span that shares the most characters with it; None if no span does."""
    if not len(others):
        return [None] * len(spans)
    shared = np.minimum(spans[:, 1:], others[:, 1]) - np.maximum(spans[:, :1], others[:, 0])
    best = shared.argmax(axis=1)
    return [int(column) if shared[row, column] > 0 else None for row, column in enumerate(best)]
