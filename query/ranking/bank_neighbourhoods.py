"""The neighbourhoods of documents in a language's bank, computed once for documents that are met again."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from encoders.document import FloatArray
from query.calibration.calibration import Bank
from query.ranking.candidates import CandidateDocuments

_MOST = 100_000
"""Maximum neighbourhoods that a bank keeps of documents by their vectors, and by passages too: 15 MB each."""


class BankNeighbourhoods:
    """A bank, and the neighbourhoods of the documents that were compared with it.

    A neighbourhood depends on the bank and on the document's vectors, not on the query, and the documents near one
    query are often near the next. Each is kept by the document's id, with a digest of the vectors and the language that
    it is of. Kept or computed anew, a neighbourhood may differ in its last bits, as products of other shapes do.
    """

    def __init__(self, bank: Bank) -> None:
        """Begin with no document."""
        self._bank = bank
        self._known: dict[type[CandidateDocuments], dict[str, int]] = {}
        """By kind of comparison and by id: a float32 in the upper half of 64 bits, the digest in the lower."""

    @property
    def count(self) -> int:
        """Number of neighbourhoods that are kept."""
        return sum(map(len, self._known.values()))

    def of(self, documents: CandidateDocuments) -> FloatArray:
        """(n,) neighbourhoods of documents."""
        known = self._known.setdefault(type(documents), {})
        digests = documents.digests.astype(np.uint64)
        for lang, rows in documents.languages.items():
            digests[rows] ^= np.uint64(crc32(lang.encode()))
        packed = np.array([known.get(doc_id, 0) for doc_id in documents.doc_ids], dtype=np.uint64)
        new = np.flatnonzero((packed == 0) | (packed & _LOWER != digests))
        values = (packed >> _HALF).astype(np.uint32).view(np.float32)
        if len(new):
            values[new] = self._computed(documents if len(new) == len(values) else documents.selected(new))
            if len(known) + len(new) > _MOST:
                known.clear()
            new = new[:_MOST]
            packed = values[new].view(np.uint32).astype(np.uint64) << _HALF | digests[new]
            known.update(zip([documents.doc_ids[row] for row in new.tolist()], packed.tolist(), strict=True))
        return values

    def _computed(self, documents: CandidateDocuments) -> FloatArray:
        return self._bank.neighbourhoods(documents.cosines(self._bank.queries), documents.doc_ids)


_HALF, _LOWER = np.uint64(32), np.uint64((1 << 32) - 1)
