"""The neighbourhoods of documents in the languages' banks, computed once for documents that are met again."""

from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock
from zlib import crc32

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from query.calibration.calibration import Bank
from query.ranking.candidates import CandidateDocuments

_BANKS = 16
"""Maximum banks in memory: with a common space of 42 languages a bank takes 17 MB."""
_MOST = 200_000
"""Maximum neighbourhoods in memory: 30 MB."""


class BankNeighbourhoods:
    """The banks of languages, and neighbourhoods of documents, which don't depend on the query and are kept.

    The key is a digest of id, vector and languages. Computed anew, a neighbourhood may differ in its last bits.
    """

    def __init__(self, bank: Callable[[str], Bank]) -> None:
        """``bank`` makes the bank of a language; those that were asked last are kept."""
        self._bank = lru_cache(_BANKS)(bank)
        self._known: dict[int, float] = {}
        self._lock = Lock()

    def of(self, documents: CandidateDocuments, query_lang: str) -> FloatArray:
        """(n,) neighbourhoods of documents in the bank of a language of queries."""
        number = np.uint32 if documents.raw.shape[1] % 2 else np.uint64
        words: npt.NDArray[np.unsignedinteger] = np.ascontiguousarray(documents.raw, dtype=np.float32).view(number)
        keys: npt.NDArray[np.uint64] = np.einsum("ij,j->i", words, _multipliers(words.shape[1]))  # sums modulo 2⁶⁴
        keys += np.array(list(map(hash, documents.doc_ids)), dtype=np.int64).view(np.uint64)
        for lang, rows in documents.languages.items():
            keys[rows] += np.uint64(crc32(f"{lang} {query_lang}".encode()))
        values = np.array([self._known.get(key, np.nan) for key in keys.tolist()], dtype=np.float32)
        new = np.flatnonzero(np.isnan(values))
        if len(new):
            compared = documents if len(new) == len(values) else documents.selected(new)
            with self._lock:
                bank = self._bank(query_lang)
            values[new] = bank.neighbourhoods(compared.cosines(bank.queries), compared.doc_ids)
            if len(self._known) + len(new) > _MOST:
                self._known.clear()
            kept = new[:_MOST]
            self._known.update(zip(keys[kept].tolist(), values[kept].tolist(), strict=True))
        return values


@cache
def _multipliers(count: int) -> npt.NDArray[np.uint64]:
    return np.random.default_rng(0).integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
