"""Which documents a store accepts: the rules that every implementation shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from indexer.stores.contract import StoredDocument


@dataclass
class Admission:
    """Documents of one ``put``, sorted by outcome.

    Attributes:
        latest: the documents to write, by id.
        older: ids of documents that came with a newer revision of themselves.
        refused: reason by id.
    """

    latest: dict[str, StoredDocument] = field(default_factory=dict)
    older: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def admit(
    documents: Sequence[StoredDocument], dim: int, *, also: Callable[[StoredDocument], str | None] = lambda _: None
) -> Admission:
    """Refuse invalid vectors; of two documents with the same id take the later one, unless its revision is older.

    Args:
        documents: the documents of a ``put``.
        dim: width of the vectors.
        also: a further check of one kind of store; returns the reason to refuse a document, or None.
    """
    admission = Admission()
    for item in documents:
        doc_id = item.document.doc_id
        if reason := _unfit(item, dim) or also(item):
            admission.refused[doc_id] = reason
            continue
        before = admission.latest.get(doc_id)
        if before is not None and before.document.revision > item.document.revision:
            admission.older.append(doc_id)
        else:
            admission.latest[doc_id] = item
    return admission


def _unfit(item: StoredDocument, dim: int) -> str | None:
    if item.vector.shape != (dim,):
        return f"its vector has {item.vector.size} numbers, not {dim}"
    if not np.isfinite(item.vector).all():
        return "its vector has numbers that are not finite"
    if abs(float(np.linalg.norm(item.vector)) - 1.0) > 1e-3:
        return "its vector is not of unit length"
    return None
