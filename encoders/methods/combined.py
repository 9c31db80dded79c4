"""Several encoders as one: their unit vectors after each other are one unit vector.

A document that one of them knows nothing of has zeros there and is a unit vector all the same; how its parts compare
with those of others is ``encoders.methods.vector_parts``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoders.document import (
    Document,
    Encoded,
    Encoder,
    EncoderSpec,
    FloatArray,
    Int32Array,
    Passages,
    ReadsSoFar,
    int8_rows,
    short_hash,
    unit_rows,
)
from encoders.errors import BadInput

BETWEEN = " + "
"""Between the names of encoders, and of their methods, that are used as one."""


def refuse_combined(encoder: str) -> None:
    """See that vectors are to be of one encoder, by its name.

    Raises:
        BadInput: they are several encoders' as one.
    """
    if BETWEEN in encoder:
        raise BadInput(f"combined vectors ({encoder}) can't be mapped yet; map a collection of one encoder")


class Combined:
    """The encoders' vectors, concatenated with equal weight.

    Passages are those of the first encoder that has any; each has beside it the vectors of the others' passages that
    it shares the most text with, or zeros where there is none.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        """Take two encoders or more.

        Raises:
            BadInput: two of them make the same vectors.
        """
        specs = [encoder.spec for encoder in encoders]
        if len({spec.model for spec in specs}) < len(specs):
            raise BadInput(
                f"{BETWEEN.join(f'{spec.name} by {spec.method}' for spec in specs)} has the same vectors twice; "
                "combine encoders that differ"
            )
        self.encoders = tuple(encoders)
        languages = dict.fromkeys(lang for spec in specs for lang in spec.languages)
        self.spec = EncoderSpec(
            name=BETWEEN.join(spec.name for spec in specs),
            method=BETWEEN.join(spec.method for spec in specs),
            dim=sum(spec.dim for spec in specs),
            languages=tuple(languages) if all(spec.languages for spec in specs) else (),
            model=short_hash("combined", *(spec.model for spec in specs)),
            build=short_hash("combined", *(spec.build for spec in specs)),
            widths=tuple(spec.dim for spec in specs),
        )

    def encode_documents(self, documents: Sequence[Document]) -> Encoded:
        """Documents by every encoder; ``known`` has a column for each."""
        parts = [encoder.encode_documents(documents) for encoder in self.encoders]
        widths = [encoder.spec.dim for encoder in self.encoders]
        vectors = unit_rows(np.concatenate([part.vectors for part in parts], axis=1))
        passages = [_beside([part.passages[at] for part in parts], widths) for at in range(len(documents))]
        return Encoded(vectors, passages, np.concatenate([part.known for part in parts], axis=1))

    def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
        """Queries by every encoder → (queries, dim) float32 unit rows; zeros where none knows a query."""
        return unit_rows(np.concatenate([encoder.encode_queries(queries) for encoder in self.encoders], axis=1))

    def read_to(self, query: Document) -> int:
        """How many characters of a query's content the encoder that reads furthest reads."""
        return max(
            encoder.read_to(query) if isinstance(encoder, ReadsSoFar) else len(query.content)
            for encoder in self.encoders
        )


def _beside(parts: Sequence[Passages], widths: Sequence[int]) -> Passages:
    """The passages of one document as the encoders cut it, made one list."""
    offsets = next((part.offsets for part in parts if len(part.offsets)), parts[0].offsets)
    rows = np.zeros((len(offsets), sum(widths)), dtype=np.float32)
    start = 0
    for part, width in zip(parts, widths, strict=True):
        own = part.unit_vectors()
        for row, place in enumerate(nearest_spans(offsets, part.offsets)):
            if place is not None:
                rows[row, start : start + width] = own[place]
        start += width
    return Passages(int8_rows(rows), offsets)


def nearest_spans(spans: Int32Array, others: Int32Array) -> list[int | None]:
    """For each span the number of the other one that it shares the most characters with; none without any."""
    if not len(others):
        return [None] * len(spans)
    shared = np.minimum(spans[:, 1:], others[:, 1]) - np.maximum(spans[:, :1], others[:, 0])
    best = shared.argmax(axis=1)
    return [int(place) if shared[row, place] > 0 else None for row, place in enumerate(best)]
