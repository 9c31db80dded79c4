"""The calibration of a collection that is being encoded again.

Some documents have the new encoder's vector, the others the old encoder's. Both kinds compare in the new encoder's
space: an old vector through the migration's map, a new vector as it is. A row holds an old and a new vector side by
side. If a document has both vectors, the new one counts and the old half is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from encoders.document import BoolArray, FloatArray, short_hash
from query.calibration.calibration import Calibration
from query.calibration.mapped_calibration import MappedCalibration


@dataclass(frozen=True)
class TwoFields(MappedCalibration):
    """A migration's calibration with a second calibration for the new encoder's own vectors.

    Attributes:
        fresh: calibration of the documents that have a vector of the new encoder.
    """

    fresh: Calibration = field(kw_only=True)

    @classmethod
    def beside(cls, mapped: MappedCalibration, fresh: Calibration) -> TwoFields:
        """Join a migration's calibration and the calibration of the new vectors."""
        parts = {name: getattr(mapped, name) for name in MappedCalibration.__dataclass_fields__}
        return cls(**parts, fresh=fresh)

    @cached_property
    def mapped(self) -> MappedCalibration:
        """Calibration of the documents that have no new vector."""
        return MappedCalibration(**{name: getattr(self, name) for name in MappedCalibration.__dataclass_fields__})

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        return short_hash(self.mapped.id, self.fresh.id)

    @property
    def old_width(self) -> int:
        """Dimensions of the old vectors, and so the first column of the new vectors."""
        return len(self.pooled.mean)

    def is_fresh(self, vectors: FloatArray) -> BoolArray:
        """(n,) whether each row has a new vector."""
        return np.asarray(vectors[:, self.old_width :].any(axis=1), dtype=np.bool_)

    def mixed(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Map (n, old dim + new dim) documents of several languages to the new encoder's space: unit rows."""
        fresh, width = self.is_fresh(vectors), self.old_width
        result = np.empty((len(vectors), self.width), dtype=np.float32)
        result[~fresh] = self.mapped.mixed(vectors[~fresh, :width], rows_after_selection(languages, ~fresh), share)
        result[fresh] = self.fresh.mixed(vectors[fresh, width:], rows_after_selection(languages, fresh), share)
        return result

    def passages(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Map passages likewise: unit rows."""
        fresh, width = self.is_fresh(vectors), self.old_width
        result = np.empty((len(vectors), self.width), dtype=np.float32)
        result[~fresh] = self.mapped.passages(vectors[~fresh, :width], rows_after_selection(languages, ~fresh), share)
        result[fresh] = self.fresh.passages(vectors[fresh, width:], rows_after_selection(languages, fresh), share)
        return result

    def as_stored(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as old and new vectors, side by side."""
        return np.concatenate([super().as_stored(queries, lang), queries], axis=1)


def rows_after_selection(languages: Mapping[str, slice], chosen: BoolArray) -> dict[str, slice]:
    """Rows of each language after only the chosen rows are kept."""
    counts = np.concatenate(([0], np.cumsum(chosen)))
    return {lang: slice(int(counts[rows.start]), int(counts[rows.stop])) for lang, rows in languages.items()}
