"""A calibration with maps: documents are compared in the space of the query's language, or of another encoder.

q·(W d) = (Wᵀq)·d: within one target language the documents' map acts on the query, so kNN searches the unchanged index
with a mapped query. Lengths and margins are exact on the mapped candidates. The map acts on centred vectors. Networks
are not linear: kNN works as without them, and the networks map only the candidates.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import ModelMismatch
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from query.calibration.calibration import Calibration, DocumentKind, UnreadableCalibration, unit_or
from query.calibration.common_space import CommonSpaceCalibration


@dataclass(frozen=True)
class MappedCalibration(Calibration):
    """Statistics of a collection's languages, with maps.

    Attributes:
        query_lang: language of the queries that documents are compared with; empty before ``for_queries_in``.
    """

    maps: SpaceMaps | Networks = field(kw_only=True)
    query_lang: str = field(default="", kw_only=True)

    @classmethod
    def on(cls, statistics: Calibration, maps: SpaceMaps | Networks) -> MappedCalibration:
        """Add maps to statistics.

        Raises:
            ModelMismatch: the maps are for vectors of another model, or of another width.
        """
        check_model(maps, statistics.model, statistics.stored_width)
        parts = {name: getattr(statistics, name) for name in Calibration.__dataclass_fields__}
        return cls(**parts, maps=maps)

    def for_queries_in(self, lang: str) -> Calibration:
        """The calibration for queries of a language."""
        return self if lang == self.query_lang else replace(self, query_lang=lang)

    @property
    def width(self) -> int:
        """Dimensions of the space that queries and documents are compared in."""
        return self.maps.width or len(self.pooled["query"].mean)

    def correct_documents(
        self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0, kind: DocumentKind = "document"
    ) -> FloatArray:
        """Documents or passages without their language's component, mapped: unit rows."""
        corrected = super().correct_documents(vectors, languages, share, kind)
        if self._is_uncorrected(share):
            return corrected
        parts = [np.zeros((0, self.width), np.float32)]
        parts += [self.maps.mapped(self.query_lang, lang, corrected[rows]) for lang, rows in languages.items()]
        mapped = np.concatenate(parts)
        return unit_or(mapped, mapped)

    def correct_queries(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Queries of one language without its component, mapped if the maps have a map for queries: unit rows."""
        corrected = super().correct_queries(vectors, lang, share)
        return corrected if self._is_uncorrected(share) else self.maps.mapped_queries(lang, corrected)

    def queries_for_store(self, queries: FloatArray, target: str, share: float = 1.0) -> FloatArray:
        """Corrected queries for kNN over a target language's raw vectors."""
        if not self._is_uncorrected(share):
            queries = self.maps.queries_in_document_space(self.query_lang, target, queries)
        return super().queries_for_store(queries, target, share)

    def _is_uncorrected(self, share: float) -> bool:
        """Whether vectors are compared as encoded; another encoder's queries always need the map."""
        return share == 0.0 and self.maps.query_encoder is None

    def queries_in_stored_space(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as vectors of the stored documents' model: through the map if another encoder made the queries."""
        if isinstance(self.maps, Networks) or self.maps.query_encoder is None:
            return queries
        weights = self.maps.document(lang, lang)
        if weights is None:
            return queries
        query_mean, mean = self.component("query", lang).mean, self.component("document", lang).mean
        return unit_rows(np.asarray((queries - query_mean) @ weights.T + mean, dtype=np.float32))

    def _header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._header_and_arrays()
        arrays |= {f"maps/{name}": weights for name, weights in self.maps.arrays().items()}
        return {**header, "maps": self.maps.header()}, arrays


def check_model(maps: SpaceMaps | Networks, model: str, dim: int) -> None:
    """Check that maps are for vectors of a model with ``dim`` dimensions.

    Raises:
        ModelMismatch: the maps are for another model or width.
    """
    if maps.model != model:
        raise ModelMismatch(
            f"the mapping is for vectors of model {maps.model}, and these are of model {model}; "
            "take the encoder that it was learnt with, or learn another: dragoman train mapping"
        )
    if isinstance(maps, SpaceMaps) and any(len(weights) != dim for weights in maps.documents.values()):
        raise ModelMismatch(f"the mapping is not for vectors of {dim} numbers; learn another: dragoman train mapping")


def read_calibration(data: bytes) -> Calibration:
    """Read an artifact, with maps if it has them.

    Raises:
        UnreadableCalibration: the artifact is damaged, or was made by another version.
    """
    statistics = Calibration.from_bytes(data)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        header = json.loads(str(archive["header"]))
        if not {"common_space", "maps"} & header.keys():
            return statistics
    try:
        if "common_space" in header:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                maps = {lang: archive[f"common_space/{lang}"] for lang in header["common_space"]}
            return CommonSpaceCalibration.on(statistics, maps)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name.removeprefix("maps/"): archive[name] for name in archive.files if name.startswith("maps/")}
        kind = Networks if "networks" in header["maps"] else SpaceMaps
        return MappedCalibration.on(statistics, kind.of(header["maps"], arrays))
    except (KeyError, TypeError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise UnreadableCalibration(
            f"the calibration's maps can't be read ({error}); choose another: dragoman calibrate --use"
        ) from error
