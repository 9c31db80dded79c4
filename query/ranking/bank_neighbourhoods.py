"""The neighbourhoods of documents among a bank's pseudo-queries, computed once for each vector that is met again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from query.calibration.calibration import Bank
from query.ranking.candidates import CandidateDocuments

_MOST = 200_000
"""Maximum neighbourhoods in memory: about 30 MB."""

Digests = npt.NDArray[np.uint64]


class BankNeighbourhoods:
    """A language's bank, and what documents were compared with it.

    A neighbourhood depends on the document's vectors and the bank, not on the query, and the documents near one query
    are often near the next. So it is kept by the document's id and a digest of its vectors.
    """

    def __init__(self, bank: Bank) -> None:
        """Begin with nothing compared."""
        self._bank = bank
        self._known: dict[tuple[str, int], float] = {}

    def of(self, documents: CandidateDocuments) -> FloatArray:
        """(n,) neighbourhoods of documents; (q, n) if the bank has the queries themselves."""
        if self._bank.own_rows is not None:
            return self._compared(documents)
        keys = list(zip(documents.doc_ids, documents.digests().tolist(), strict=True))
        known = [self._known.get(key, np.nan) for key in keys]
        values = np.array(known, dtype=np.float32)
        new = np.flatnonzero(np.isnan(values))
        if len(new):
            values[new] = self._compared(documents if len(new) == len(keys) else documents.selected(new))
            if len(self._known) + len(new) > _MOST:
                self._known = {}
            self._known.update({keys[row]: float(values[row]) for row in new.tolist()})
        return values

    def _compared(self, documents: CandidateDocuments) -> FloatArray:
        cosines = documents.cosines(self._bank.queries)
        self._bank.exclude_sources(cosines, documents.doc_ids)
        return self._bank.neighbourhoods(cosines)
