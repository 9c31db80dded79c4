"""A calibration with a common space: queries reach documents of other languages through maps learnt from mates.

A language's map W leads its centred vectors to where their counterparts in all languages meet. A query of language a
and a document of language b are compared by (q W_a)·(d W_b) = (q W_a W_bᵀ)·d. So the query takes both maps, once for
each target language, and documents stay as they are, in the index and among the candidates. The lengths of d W_b are
left out: the maps are near the identity. Queries and documents of one language are compared without maps. So are all
where the languages' components are not wholly taken out, because maps are learnt from what is left then.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from encoders.document import FloatArray, unit_rows
from query.calibration.calibration import Calibration

_FEW = 4
"""Queries ranked together whose mapped vectors are kept for a moment."""
_RECENT = 16
"""Rankings of such queries that are kept."""


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
        queries = self._toward(target, queries) if share == 1.0 else queries
        return super().queries_for_store(queries, target, share)

    def cosines(
        self,
        rows: FloatArray,
        languages: Mapping[str, slice],
        queries: FloatArray,
        share: float = 1.0,
        mapped: MutableMapping[str, FloatArray] | None = None,
    ) -> FloatArray:
        """(n, queries) cosines of corrected documents or passages with corrected queries, which take the maps."""
        if share < 1.0 or not languages:
            return super().cosines(rows, languages, queries, share)
        mapped = {} if mapped is None else mapped
        for lang in languages:
            if lang not in mapped:
                mapped[lang] = self._toward(lang, queries)
        return np.concatenate([self.vector_parts.cosines(rows[span], mapped[lang]) for lang, span in languages.items()])

    def _toward(self, target: str, queries: FloatArray) -> FloatArray:
        """Corrected queries as they are compared with documents of a language; unchanged without maps for both."""
        if target == self.query_lang or not {target, self.query_lang} <= self.maps.keys():
            return queries
        kept = self._kept(queries)
        if target not in kept:
            if self.query_lang not in kept:
                kept[self.query_lang] = np.asarray(queries @ self.maps[self.query_lang], dtype=np.float32)
            kept[target] = unit_rows(np.asarray(kept[self.query_lang] @ self.maps[target].T, dtype=np.float32))
        return kept[target]

    def _kept(self, queries: FloatArray) -> dict[str, FloatArray]:
        """What was made of the same queries for other targets; a ranking compares one query several times."""
        if len(queries) > _FEW:
            return {}
        key = queries.tobytes()
        if (kept := self._recent.get(key)) is None:
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            kept = self._recent[key] = {}
        return kept

    @cached_property
    def _recent(self) -> dict[bytes, dict[str, FloatArray]]:
        return {}

    def _header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._header_and_arrays()
        arrays |= {f"common_space/{lang}": weights.astype(np.float16) for lang, weights in self.maps.items()}
        return {**header, "common_space": list(self.maps)}, arrays
