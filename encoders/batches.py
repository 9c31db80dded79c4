"""Encoding of many documents in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from encoders.document import Document, Encoded, Encoder


def encode_in_batches(
    encoder: Encoder, documents: Iterable[Document], size: int, progress: Callable[[int], None]
) -> Iterator[tuple[Sequence[Document], Encoded]]:
    """Yield the documents and their vectors in batches of ``size``, the last shorter; ``progress`` gets each length."""
    remaining = iter(documents)
    while batch := list(islice(remaining, size)):
        yield batch, encoder.encode_documents(batch)
        progress(len(batch))
