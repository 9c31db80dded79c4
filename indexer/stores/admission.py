"""What a store takes of the documents it is handed: the rules that every implementation shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from indexer.stores.contract import StoredDocument


@dataclass
class Admission:
    """Documents sorted by what becomes of them.

    Attributes:
        latest: to be written, by id.
        older: ids of which a newer revision came with them.
        refused: reasons by id.
    """

    latest: dict[str, StoredDocument] = field(default_factory=dict)
    older: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def admit(
    documents: Sequence[StoredDocument], dim: int, *, also: Callable[[StoredDocument], str | None] = lambda _: None
) -> Admission:
    """Refuse vectors that are none; of the same id twice take the later one, unless it is older.

    Args:
        documents: what was handed in.
        dim: width of the vectors.
        also: a reason to refuse that one kind of store has.
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
