"""A calibration with a common space: queries reach documents of other languages through maps learnt from mates.

A language's map W leads its centred vectors to where their counterparts in all languages meet. A query of language a
and a document of language b are compared by (q W_a)·(d W_b) = (q W_a W_bᵀ)·d. So the query takes both maps, once for
each target language, and documents stay as they are, in the index and among the candidates. The lengths of d W_b are
left out: the maps are near the identity. Queries and documents of one language are compared without maps. So are all
where the languages' components are not wholly taken out, because maps are learnt from what is left then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from encoders.document import FloatArray, unit_rows
from query.calibration.calibration import Calibration
from query.calibration.corrected_queries import CorrectedQueries


@dataclass(frozen=True)
class CommonSpaceCalibration(Calibration):
    """Statistics of a collection's languages, with maps into a common space.

    Attributes:
        maps: (dim, dim) weights by language that centred rows are multiplied by from the right, in float16 precision.
    """

    maps: Mapping[str, FloatArray] = field(kw_only=True)

    @classmethod
    def on(cls, statistics: Calibration, maps: Mapping[str, np.ndarray]) -> CommonSpaceCalibration:
        """Add maps to statistics; the maps are rounded to float16, as they are stored."""
        parts = {name: getattr(statistics, name) for name in Calibration.__dataclass_fields__}
        return cls(
            **parts, maps={lang: weights.astype(np.float16).astype(np.float32) for lang, weights in maps.items()}
        )

    def compared(self, queries: FloatArray, lang: str, share: float = 1.0) -> CorrectedQueries:
        """Corrected queries of one language, which take the maps for each other target language that has a map."""
        if share < 1.0 or lang not in self.maps:
            return CorrectedQueries(queries)
        in_common_space = queries @ self.maps[lang]

        def toward(target: str) -> FloatArray:
            if target == lang or target not in self.maps:
                return queries
            return unit_rows(np.asarray(in_common_space @ self.maps[target].T, dtype=np.float32))

        return CorrectedQueries(queries, toward)

    def _header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._header_and_arrays()
        arrays |= {f"common_space/{lang}": weights.astype(np.float16) for lang, weights in self.maps.items()}
        return {**header, "common_space": list(self.maps)}, arrays
