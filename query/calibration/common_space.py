"""A calibration with a common space: queries reach documents of other languages through maps learnt from mates.

A language's map W leads its centred vectors to where their counterparts in all languages meet. A query of language a
and a document of language b are compared by (q W_a)·(d W_b) = (q W_a W_bᵀ)·d. So the query takes both maps, once for
each target language, and documents stay as they are, in the index and among the candidates. The lengths of d W_b are
left out: the maps are near the identity. Queries and documents of one language are compared without maps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from encoders.document import FloatArray, unit_rows
from query.calibration.calibration import Bank, Calibration

_KEPT = 256
"""Mapped banks in memory, one for each pair of languages: 0.4 MB each at 384 dimensions."""


@dataclass(frozen=True)
class CommonSpaceCalibration(Calibration):
    """Statistics of a collection's languages, with maps into a common space.

    Attributes:
        maps: (dim, dim) weights by language that centred rows are multiplied by from the right, in float16 precision.
        query_lang: language of the queries that documents are compared with; empty before ``for_queries_in``.
    """

    maps: Mapping[str, FloatArray] = field(kw_only=True)
    query_lang: str = field(default="", kw_only=True)

    @classmethod
    def on(cls, statistics: Calibration, maps: Mapping[str, np.ndarray]) -> CommonSpaceCalibration:
        """Add maps to statistics; the maps are rounded to float16, as they are stored."""
        parts = {name: getattr(statistics, name) for name in Calibration.__dataclass_fields__}
        return cls(
            **parts, maps={lang: weights.astype(np.float16).astype(np.float32) for lang, weights in maps.items()}
        )

    def for_queries_in(self, lang: str) -> Calibration:
        """The calibration for queries of a language."""
        return self if lang == self.query_lang else replace(self, query_lang=lang)

    def queries_for_store(self, queries: FloatArray, target: str, share: float = 1.0) -> FloatArray:
        """Corrected queries for kNN over a target language's raw vectors."""
        return super().queries_for_store(self._toward(target, queries) if share else queries, target, share)

    def bank(self, lang: str, share: float = 1.0) -> Bank:
        """Corrected pseudo-queries of a language."""
        bank = super().bank(lang, share)
        self._banks[id(bank.vectors)] = bank.vectors
        return bank

    def cosines(
        self, rows: FloatArray, languages: Mapping[str, slice], queries: FloatArray, share: float = 1.0
    ) -> FloatArray:
        """(n, queries) cosines of corrected documents or passages with corrected queries, which take the maps."""
        if not share or not languages:
            return super().cosines(rows, languages, queries, share)
        toward = self._bank_toward if id(queries) in self._banks else self._toward
        return np.concatenate(
            [self.vector_parts.cosines(rows[span], toward(lang, queries)) for lang, span in languages.items()]
        )

    def _toward(self, target: str, queries: FloatArray) -> FloatArray:
        """Corrected queries as they are compared with documents of a language; unchanged without maps for both."""
        if target == self.query_lang or not {target, self.query_lang} <= self.maps.keys():
            return queries
        mapped = queries @ self.maps[self.query_lang] @ self.maps[target].T
        return unit_rows(mapped.astype(np.float32, copy=False))

    def _bank_toward(self, target: str, bank: FloatArray) -> FloatArray:
        """The same of pseudo-queries, which every query needs."""
        key = (id(bank), target)
        if key not in self._mapped_banks:
            self._mapped_banks[key] = self._toward(target, bank)
        self._mapped_banks.move_to_end(key)
        while len(self._mapped_banks) > _KEPT:
            self._mapped_banks.popitem(last=False)
        return self._mapped_banks[key]

    @cached_property
    def _banks(self) -> dict[int, FloatArray]:
        """The banks that were handed out, by identity."""
        return {}

    @cached_property
    def _mapped_banks(self) -> OrderedDict[tuple[int, str], FloatArray]:
        return OrderedDict()

    def _header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._header_and_arrays()
        arrays |= {f"common_space/{lang}": weights.astype(np.float16) for lang, weights in self.maps.items()}
        return {**header, "common_space": list(self.maps)}, arrays
