"""Documents' vectors by id."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from encoders.console import Console
from encoders.document import Document, Encoder, FloatArray, encode_in_batches


def vectors_by_id(
    title: str, documents: Iterable[Document], encoder: Encoder, batch_size: int, console: Console
) -> dict[str, FloatArray]:
    """Encode documents as they are read; returns (dim,) unit vectors by id, of equal ids the last document's.

    ``title`` stands before the progress bar.
    """
    total = len(documents) if isinstance(documents, Sized) else None
    vectors: dict[str, FloatArray] = {}
    with console.progress(title, total, "documents") as progress:
        for batch, encoded in encode_in_batches(encoder, documents, batch_size, progress):
            vectors.update(zip((document.doc_id for document in batch), encoded.vectors, strict=True))
    return vectors
