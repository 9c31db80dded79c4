"""Spaces in which a calibration compares queries with documents, after the languages' means were taken out.

A linear map of one target language's documents is a map of the query, q·(W d) = (Wᵀq)·d, so the index is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import ModelMismatch
from encoders.maps.space_maps import QueryEncoderSpec, SpaceMaps
from encoders.methods.vector_parts import VectorParts


class CorrectedQueries:
    """Queries of one language without its component."""

    def __init__(self, vectors: FloatArray, mapped: Callable[[str], FloatArray] | None = None) -> None:
        """``mapped`` makes the vectors for a target language; without it, all languages get the same vectors."""
        self.vectors = vectors  # (queries, dim) unit rows
        self._mapped = mapped and cache(mapped)

    def __len__(self) -> int:
        return len(self.vectors)

    def toward(self, target: str) -> FloatArray:
        """(queries, dim) vectors to compare with documents of a language; made once, and kept."""
        return self._mapped(target) if self._mapped else self.vectors

    def cosines(self, rows: FloatArray, languages: Mapping[str, slice], parts: VectorParts) -> FloatArray:
        """(n, queries) cosines with corrected documents or passages, (n, dim), which lie language after language."""
        if self._mapped is None or not languages:
            return parts.cosines(rows, self.vectors)
        return np.concatenate([parts.cosines(rows[span], self.toward(lang)) for lang, span in languages.items()])


class Space:
    """How corrected queries and documents are compared; here vectors are compared as they are."""

    name: str = ""  # what the space is, for a person; empty if vectors are compared as they are
    # a person's or a migration's maps, which documents need; none: only queries are mapped
    maps_of_documents: SpaceMaps | None = None

    @property
    def query_encoder(self) -> QueryEncoderSpec | None:
        """Encoder of the queries, if it is not the documents' encoder."""
        return self.maps_of_documents.query_encoder if self.maps_of_documents else None

    def queries(self, rows: FloatArray, lang: str) -> FloatArray:  # noqa: ARG002
        """Corrected queries of a language in the space: unit rows."""
        return rows

    def documents(self, rows: FloatArray, languages: Mapping[str, slice], query_lang: str) -> FloatArray:  # noqa: ARG002
        """Corrected documents, language after language, to compare them with queries of a language: unit rows."""
        return rows

    def compared(self, rows: FloatArray, lang: str) -> CorrectedQueries:  # noqa: ARG002
        """Queries in the space as they are compared with documents of each language."""
        return CorrectedQueries(rows)

    def for_store(self, rows: FloatArray, lang: str, target: str) -> FloatArray:  # noqa: ARG002
        """Queries in the space, toward a target language, as vectors for kNN over its stored vectors."""
        return rows

    def header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The space as the calibration's artifact has it."""
        return {}, {}


PLAIN_SPACE = Space()


class CommonSpace(Space):
    """Queries reach documents of other languages through maps learnt from mates; within a language no map is used.

    A language's map W leads its centred vectors to where their counterparts in all languages meet: a query of language
    a and a document of language b are compared by (q W_a W_bᵀ)·d. Maps are near the identity: lengths are left out.
    """

    name = "common space"

    def __init__(self, maps: Mapping[str, FloatArray]) -> None:
        self.maps = maps  # (dim, dim) float16 weights by language; centred rows are multiplied from the right

    @classmethod
    def rounded(cls, maps: Mapping[str, np.ndarray]) -> Self:
        """A space of maps in any precision, rounded to float16, as they are stored."""
        return cls({lang: weights.astype(np.float16).astype(np.float32) for lang, weights in maps.items()})

    def compared(self, rows: FloatArray, lang: str) -> CorrectedQueries:
        """Queries that take the maps for each other target language that has a map."""
        if lang not in self.maps:
            return CorrectedQueries(rows)
        in_common_space = rows @ self.maps[lang]

        def toward(target: str) -> FloatArray:
            if target == lang or target not in self.maps:
                return rows
            return unit_rows(np.asarray(in_common_space @ self.maps[target].T, dtype=np.float32))

        return CorrectedQueries(rows, toward)

    def header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The languages and their maps in float16."""
        arrays = {f"common_space/{lang}": weights.astype(np.float16) for lang, weights in self.maps.items()}
        return {"common_space": list(self.maps)}, arrays


class MappedSpace(Space):
    """Documents are compared in the space of the query's language, or of another encoder, by maps that were learnt."""

    def __init__(self, maps: SpaceMaps) -> None:
        self.maps = self.maps_of_documents = maps
        self.name = str(maps.about.get("method", "maps"))

    def queries(self, rows: FloatArray, lang: str) -> FloatArray:
        """Queries, mapped if the maps have a map for queries."""
        return self.maps.mapped_queries(lang, rows)

    def documents(self, rows: FloatArray, languages: Mapping[str, slice], query_lang: str) -> FloatArray:
        """Documents, mapped for queries of a language."""
        parts = [self.maps.mapped(query_lang, lang, rows[span]) for lang, span in languages.items()]
        mapped = np.concatenate(parts) if parts else rows.copy()
        return unit_or(mapped, mapped)

    def for_store(self, rows: FloatArray, lang: str, target: str) -> FloatArray:
        """Queries mapped back into the space of a language's documents."""
        return self.maps.queries_in_document_space(lang, target, rows)

    def header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The maps' own header and arrays."""
        return {"maps": self.maps.header()}, {f"maps/{name}": weights for name, weights in self.maps.arrays().items()}


def check_model(maps: SpaceMaps, model: str, dim: int) -> None:
    """Check that maps are for vectors of a model with ``dim`` dimensions. Raises ModelMismatch: they are not."""
    if maps.model != model:
        raise ModelMismatch(
            f"the mapping is for vectors of model {maps.model}, and these are of model {model}; "
            "take the encoder that it was learnt with, or learn another: dragoman train mapping"
        )
    if any(len(weights) != dim for weights in maps.documents.values()):
        raise ModelMismatch(f"the mapping is not for vectors of {dim} numbers; learn another: dragoman train mapping")


def read_space(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Space:
    """The space of an artifact. Raises KeyError, TypeError, ValueError: an entry is missing or wrong."""
    if "common_space" in header:
        return CommonSpace.rounded({lang: arrays[f"common_space/{lang}"] for lang in header["common_space"]})
    if "maps" not in header:
        return PLAIN_SPACE
    if "networks" in header["maps"]:
        raise ValueError("it ranks through networks, which Dragoman has no longer")
    of_maps = {name.removeprefix("maps/"): rows for name, rows in arrays.items() if name.startswith("maps/")}
    return MappedSpace(SpaceMaps.of(header["maps"], of_maps))


def unit_or(corrected: FloatArray, vectors: FloatArray) -> FloatArray:
    """Unit rows of ``corrected``, which may be overwritten; of ``vectors`` where a row is nearly zero there."""
    lengths = np.sqrt(np.einsum("ij,ij->i", corrected, corrected))[:, None]
    if lengths.min(initial=np.inf) > _SMALLEST_LENGTH:
        return np.asarray(np.divide(corrected, lengths, out=corrected))
    return unit_rows(np.where(lengths > _SMALLEST_LENGTH, corrected, vectors).astype(np.float32))


_SMALLEST_LENGTH = 1e-4
