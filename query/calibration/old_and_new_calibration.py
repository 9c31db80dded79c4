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

from encoders.document import BoolArray, FloatArray, short_hash, unit_rows
from encoders.maps.networks import Networks
from query.calibration.calibration import Calibration, DocumentKind
from query.calibration.mapped_calibration import MappedCalibration


@dataclass(frozen=True)
class OldAndNewCalibration(MappedCalibration):
    """A migration's calibration with a second calibration for the new encoder's own vectors.

    Attributes:
        new: calibration of the documents that have a vector of the new encoder.
    """

    new: Calibration = field(kw_only=True)

    @classmethod
    def of(cls, old: MappedCalibration, new: Calibration) -> OldAndNewCalibration:
        """Join a migration's calibration and the calibration of the new vectors."""
        parts = {name: getattr(old, name) for name in MappedCalibration.__dataclass_fields__}
        return cls(**parts, new=new)

    @cached_property
    def old(self) -> MappedCalibration:
        """Calibration of the documents that have no new vector."""
        return MappedCalibration(**{name: getattr(self, name) for name in MappedCalibration.__dataclass_fields__})

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        return short_hash(self.old.id, self.new.id)

    def has_new_vector(self, vectors: FloatArray) -> BoolArray:
        """(n,) whether each row has a new vector: the columns after those of the old vectors."""
        return np.asarray(vectors[:, self.stored_width :].any(axis=1), dtype=np.bool_)

    def correct_documents(
        self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0, kind: DocumentKind = "document"
    ) -> FloatArray:
        """Map (n, old dim + new dim) documents or passages to the new encoder's space: unit rows."""
        has_new, width = self.has_new_vector(vectors), self.stored_width
        result = np.empty((len(vectors), self.width), dtype=np.float32)
        for rows, columns, calibration in (
            (~has_new, slice(None, width), self.old),
            (has_new, slice(width, None), self.new),
        ):
            chosen = rows_after_selection(languages, rows)
            result[rows] = calibration.correct_documents(vectors[rows, columns], chosen, share, kind)
        return result

    def queries_in_stored_space(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as old and new vectors, side by side."""
        return np.concatenate([super().queries_in_stored_space(queries, lang), queries], axis=1)

    def comparable_with_stored(self, vectors: FloatArray, lang: str) -> FloatArray:
        """Documents of a language as old and new vectors, side by side: the half that a row lacks comes of the map.

        A row of zeros, of a document that the encoder does not know, stays.
        """
        weights = None if isinstance(self.maps, Networks) else self.maps.document(lang, lang)
        if weights is None:
            return vectors
        width, whole = self.stored_width, vectors.copy()
        has_new, has_old = self.has_new_vector(vectors), vectors[:, :width].any(axis=1)
        old_mean, new_mean = (kind.component("document", lang).mean for kind in (self, self.new))
        old = (vectors[has_new, width:] - new_mean) @ weights.T + old_mean
        new = (vectors[has_old, :width] - old_mean) @ weights + new_mean
        whole[has_new, :width] = unit_rows(np.asarray(old, dtype=np.float32))
        whole[has_old, width:] = unit_rows(np.asarray(new, dtype=np.float32))
        return whole


def rows_after_selection(languages: Mapping[str, slice], chosen: BoolArray) -> dict[str, slice]:
    """Rows of each language after only the chosen rows are kept."""
    counts = np.concatenate(([0], np.cumsum(chosen)))
    return {lang: slice(int(counts[rows.start]), int(counts[rows.stop])) for lang, rows in languages.items()}
