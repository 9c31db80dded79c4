"""The calibration of a collection that is being encoded again.

Some documents have the new encoder's vector, the others the old one's. Both compare in the new encoder's space: an old
vector through the migration's map, a new one as it is. A document is held as both vectors side by side. If it has both,
the new one counts and the old half is zero.
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
    """A migration's calibration, and one of the new encoder's own vectors.

    Attributes:
        fresh: of documents that have a vector of the new encoder.
    """

    fresh: Calibration = field(kw_only=True)

    @classmethod
    def beside(cls, mapped: MappedCalibration, fresh: Calibration) -> TwoFields:
        """Take both."""
        parts = {name: getattr(mapped, name) for name in MappedCalibration.__dataclass_fields__}
        return cls(**parts, fresh=fresh)

    @cached_property
    def mapped(self) -> MappedCalibration:
        """Of documents that have none."""
        return MappedCalibration(**{name: getattr(self, name) for name in MappedCalibration.__dataclass_fields__})

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        return short_hash(self.mapped.id, self.fresh.id)

    @property
    def old_width(self) -> int:
        """Of the old vectors: where the new ones begin."""
        return len(self.pooled.mean)

    def is_fresh(self, vectors: FloatArray) -> BoolArray:
        """(n,) rows with a new vector."""
        return np.asarray(vectors[:, self.old_width :].any(axis=1), dtype=np.bool_)

    def mixed(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Documents of several languages, (n, old dim + new dim), in the new encoder's space: unit rows."""
        fresh, width = self.is_fresh(vectors), self.old_width
        found = np.empty((len(vectors), self.width), dtype=np.float32)
        found[~fresh] = self.mapped.mixed(vectors[~fresh, :width], among(languages, ~fresh), share)
        found[fresh] = self.fresh.mixed(vectors[fresh, width:], among(languages, fresh), share)
        return found

    def passages(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Passages likewise."""
        fresh, width = self.is_fresh(vectors), self.old_width
        found = np.empty((len(vectors), self.width), dtype=np.float32)
        found[~fresh] = self.mapped.passages(vectors[~fresh, :width], among(languages, ~fresh), share)
        found[fresh] = self.fresh.passages(vectors[fresh, width:], among(languages, fresh), share)
        return found

    def as_stored(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as both kinds of vectors, side by side."""
        return np.concatenate([super().as_stored(queries, lang), queries], axis=1)


def among(languages: Mapping[str, slice], chosen: BoolArray) -> dict[str, slice]:
    """Rows of each language, where only some rows are left."""
    before = np.concatenate(([0], np.cumsum(chosen)))
    return {lang: slice(int(before[rows.start]), int(before[rows.stop])) for lang, rows in languages.items()}
