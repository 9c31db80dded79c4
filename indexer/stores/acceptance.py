"""Which documents a store accepts: the rules that every implementation shares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from encoders.errors import ModelMismatch
from indexer.stores.contract import PutReport, StoredDocument


@dataclass
class Admission:
    """Documents of one ``put``, sorted by outcome."""

    latest: dict[str, StoredDocument] = field(default_factory=dict)  # the documents to write, by id
    older: set[str] = field(default_factory=set)  # ids not written: there is a newer revision or text
    refused: dict[str, str] = field(default_factory=dict)  # reason by id

    def report(self, stored: int, refused: Mapping[str, str] | None = None) -> PutReport:
        """The report of the ``put``; ``refused`` has the documents that the write refused."""
        return PutReport(stored, sorted(self.older), {**self.refused, **(refused or {})})


def admit(
    documents: Sequence[StoredDocument], dim: int, *, also: Callable[[StoredDocument], str | None] = lambda _: None
) -> Admission:
    """Refuse invalid vectors; of two documents with the same id take the later one, unless its revision is older.

    ``also`` is a further check of one kind of store; it returns the reason to refuse a document, or None.
    """
    admission = Admission()
    for item in documents:
        doc_id = item.document.doc_id
        if reason := _unfit(item, dim) or also(item):
            admission.refused[doc_id] = reason
            continue
        before = admission.latest.get(doc_id)
        if before is not None and before.document.revision > item.document.revision:
            admission.older.add(doc_id)
        else:
            admission.latest[doc_id] = item
    return admission


def other_width(place: object, model: str, known: int, dim: int) -> ModelMismatch:
    """The error for a model whose vectors in a store have another width."""
    return ModelMismatch(f"{place} holds vectors of model {model} with {known} numbers, not {dim}")


def unknown_model(place: object, model: str, models: Iterable[str]) -> ModelMismatch:
    """The error for a model of which a store has no vectors, only of others."""
    return ModelMismatch(
        f"{place} holds no vectors of model {model} (it holds: {', '.join(models) or 'none'}); "
        "search with the encoder it was indexed with, or index again"
    )


def _unfit(item: StoredDocument, dim: int) -> str | None:
    if item.vector.shape != (dim,):
        return f"its vector has {item.vector.size} numbers, not {dim}"
    if not np.isfinite(item.vector).all():
        return "its vector has numbers that are not finite"
    if abs(float(np.linalg.norm(item.vector)) - 1.0) > 1e-3:
        return "its vector is not of unit length"
    return None
