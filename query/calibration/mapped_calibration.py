"""A calibration with maps: documents are compared in the space of the query's language, or of another encoder.

q·(W d) = (Wᵀq)·d: within one target language the documents' map acts on the query, so kNN asks the index as it is,
with a mapped query; lengths and margins are exact on the mapped candidates. The map acts on what centring leaves.
Networks are not linear: kNN is asked as without them, and they compare the candidates.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import ModelMismatch, StoreError
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from query.calibration.calibration import Calibration, unit_or


@dataclass(frozen=True)
class MappedCalibration(Calibration):
    """Statistics of a collection's languages, with maps.

    Attributes:
        maps: of documents and queries.
        query_lang: language of the queries that it compares documents with; empty before ``towards``.
    """

    maps: SpaceMaps | Networks = field(kw_only=True)
    query_lang: str = field(default="", kw_only=True)

    @classmethod
    def on(cls, statistics: Calibration, maps: SpaceMaps | Networks) -> MappedCalibration:
        """Statistics with maps for their vectors.

        Raises:
            ModelMismatch: the maps are for vectors of another model, or of another width.
        """
        check_model(maps, statistics.model, len(statistics.pooled.mean))
        parts = {name: getattr(statistics, name) for name in Calibration.__dataclass_fields__}
        return cls(**parts, maps=maps)

    def towards(self, lang: str) -> Calibration:
        """The same for queries of a language."""
        return self if lang == self.query_lang else replace(self, query_lang=lang)

    @property
    def width(self) -> int:
        """Of the space that is compared in."""
        return self.maps.width or len(self.pooled_query.mean)

    def mixed(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Documents of several languages, each without its own component, mapped: unit rows."""
        return self._mapped(super().mixed(vectors, languages, share), languages, share)

    def passages(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Passages likewise."""
        return self._mapped(super().passages(vectors, languages, share), languages, share)

    def _mapped(self, left: FloatArray, languages: Mapping[str, slice], share: float) -> FloatArray:
        if self._as_the_encoder_ranks(share):
            return left
        parts = [np.zeros((0, self.width), np.float32)]
        parts += [self.maps.mapped(self.query_lang, lang, left[rows]) for lang, rows in languages.items()]
        mapped = np.concatenate(parts)
        return unit_or(mapped, mapped)

    def queries(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Queries of one language without its component, mapped where there is a map for queries: unit rows."""
        left = super().queries(vectors, lang, share)
        return left if self._as_the_encoder_ranks(share) else self.maps.mapped_queries(lang, left)

    def asked(self, queries: FloatArray, target: str, share: float = 1.0) -> FloatArray:
        """Corrected queries as raw vectors of a target language are to be asked."""
        if not self._as_the_encoder_ranks(share):
            queries = self.maps.asking(self.query_lang, target, queries)
        return super().asked(queries, target, share)

    def _as_the_encoder_ranks(self, share: float) -> bool:
        """Whether nothing is to be corrected; another encoder's queries compare by the map alone."""
        return share == 0.0 and self.maps.asker is None

    def as_stored(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as vectors of the stored documents' model: another encoder's through the map, others as they are."""
        if isinstance(self.maps, Networks) or self.maps.asker is None:
            return queries
        weights = self.maps.document(lang, lang)
        if weights is None:
            return queries
        known = self.languages.get(lang)
        query_mean = known.query_mean if known else self.pooled_query.mean
        mean = known.mean if known else self.pooled.mean
        return unit_rows(np.asarray((queries - query_mean) @ weights.T + mean, dtype=np.float32))

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._parts()
        arrays |= {f"maps/{name}": weights for name, weights in self.maps.arrays().items()}
        return {**header, "maps": self.maps.header()}, arrays


def check_model(maps: SpaceMaps | Networks, model: str, dim: int) -> None:
    """See that maps are for vectors of a model, of so many numbers.

    Raises:
        ModelMismatch: they are for another's.
    """
    if maps.model != model:
        raise ModelMismatch(
            f"the mapping is for vectors of model {maps.model}, and these are of model {model}; "
            "take the encoder that it was learnt with, or learn another: dragoman train mapping"
        )
    if isinstance(maps, SpaceMaps) and any(len(one) != dim for one in maps.documents.values()):
        raise ModelMismatch(f"the mapping is not for vectors of {dim} numbers; learn another: dragoman train mapping")


def read_calibration(data: bytes) -> Calibration:
    """Read an artifact, with its maps if it has some.

    Raises:
        StoreError: it is damaged, or was made by another version.
    """
    statistics = Calibration.from_bytes(data)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        header = json.loads(str(archive["header"]))
        if "maps" not in header:
            return statistics
        arrays = {name.removeprefix("maps/"): archive[name] for name in archive.files if name.startswith("maps/")}
    try:
        kind = Networks if "networks" in header["maps"] else SpaceMaps
        return MappedCalibration.on(statistics, kind.of(header["maps"], arrays))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"the calibration's maps can't be read ({error}); choose another: dragoman calibrate --use"
        ) from error
