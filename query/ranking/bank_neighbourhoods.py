"""The neighbourhoods of documents in a language's bank, computed once for documents that are met again."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from encoders.document import FloatArray
from query.calibration.calibration import Bank
from query.ranking.candidates import CandidateDocuments

_MOST = 200_000
"""Maximum neighbourhoods that a bank keeps: 30 MB."""


class BankNeighbourhoods:
    """A bank, and the neighbourhoods of the documents that were compared with it.

    A neighbourhood depends on the bank and on the document's vectors, not on the query, and the documents near one
    query are often near the next. Each is kept by a digest of the document's id, language and vectors. Kept or computed
    anew, a neighbourhood may differ in its last bits, as products of other shapes do.
    """

    def __init__(self, bank: Bank) -> None:
        """Begin with no document."""
        self._bank = bank
        self._known: dict[int, float] = {}

    @property
    def count(self) -> int:
        """Number of neighbourhoods that are kept."""
        return len(self._known)

    def of(self, documents: CandidateDocuments) -> FloatArray:
        """(n,) neighbourhoods of documents."""
        keys = documents.digests + np.array(list(map(hash, documents.doc_ids)), dtype=np.int64).view(np.uint64)
        for lang, rows in documents.languages.items():
            keys[rows] += np.uint64(crc32(lang.encode()))
        values = np.array([self._known.get(key, np.nan) for key in keys.tolist()], dtype=np.float32)
        new = np.flatnonzero(np.isnan(values))
        if len(new):
            compared = documents if len(new) == len(values) else documents.selected(new)
            values[new] = self._bank.neighbourhoods(compared.cosines(self._bank.queries), compared.doc_ids)
            if len(self._known) + len(new) > _MOST:
                self._known.clear()
            kept = new[:_MOST]
            self._known.update(zip(keys[kept].tolist(), values[kept].tolist(), strict=True))
        return values
