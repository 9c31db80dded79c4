"""Linear maps of documents and queries into spaces where vectors are compared, as stored in a mapping's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.field_types import filled
from encoders.folder.model_config import read_json

FORMAT = 1
HEADER = "mapping.json"
ANY = ""
"""Stands for every language that is not named."""


@dataclass(frozen=True)
class QueryEncoderSpec:
    """The encoder of queries where it is not the encoder of the stored documents."""

    encoder: str
    method: str
    model: str
    dim: int


@dataclass(frozen=True)
class SpaceMaps:
    """Weights that centred rows are multiplied by from the right before they are compared."""

    model: str  # id of the stored documents' vectors
    documents: Mapping[tuple[str, str], FloatArray]  # (dim, k) by language of query and document, or ``ANY``
    queries: Mapping[str, FloatArray] = field(default_factory=dict)  # (query dim, k) by language, ANY; else unchanged
    about: Mapping[str, Any] = field(default_factory=dict)
    query_encoder: QueryEncoderSpec | None = None  # encoder of the queries, if it is not the documents' encoder

    @classmethod
    def rounded(
        cls,
        model: str,
        documents: Mapping[tuple[str, str], np.ndarray],
        queries: Mapping[str, np.ndarray] | None = None,
        *,
        about: Mapping[str, Any] | None = None,
        query_encoder: QueryEncoderSpec | None = None,
    ) -> Self:
        """Maps of weights in any precision, rounded to float16 as stored. Raises BadInput: a weight is too large."""
        return cls(
            model,
            {key: _round(weights) for key, weights in documents.items()},
            {key: _round(weights) for key, weights in (queries or {}).items()},
            about or {},
            query_encoder,
        )

    def document(self, query_lang: str, lang: str) -> FloatArray | None:
        """Weights for documents of a language under queries of another; None: the documents stay unchanged."""
        for key in ((query_lang, lang), (ANY, lang), (ANY, ANY)):
            if key in self.documents:
                return self.documents[key]
        return None

    def query(self, lang: str) -> FloatArray | None:
        """Weights for queries of a language; None: the queries stay unchanged."""
        return self.queries.get(lang, self.queries.get(ANY))

    def mapped(self, query_lang: str, lang: str, rows: FloatArray) -> FloatArray:
        """Map centred documents of a language to compare them with queries of another, (n, k)."""
        weights = self.document(query_lang, lang)
        return rows if weights is None else rows @ weights

    def mapped_queries(self, lang: str, rows: FloatArray) -> FloatArray:
        """Map centred queries of a language, (n, k) unit rows; queries without weights stay unchanged."""
        weights = self.query(lang)
        return rows if weights is None else unit_rows(rows @ weights)

    def queries_in_document_space(self, query_lang: str, lang: str, queries: FloatArray) -> FloatArray:
        """Map queries back into the space of a language's documents, (n, dim) unit rows: q·(W d) = (Wᵀq)·d."""
        weights = self.document(query_lang, lang)
        return queries if weights is None else unit_rows(queries @ weights.T)

    def compared(self, lang: str, other: str, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map centred queries of a language and centred documents of another to compare them: (n, k) and (m, k)."""
        weights = self.query(lang)
        return x if weights is None else x @ weights, self.mapped(lang, other, y)

    def knows(self, lang: str) -> bool:
        """Whether the maps were learnt from this language; a pivot counts although it has no map."""
        learnt = lang in self.about.get("languages", ()) or any(lang == document for _, document in self.documents)
        return learnt or self.query_encoder is not None

    @property
    def stands_in(self) -> bool:
        """Whether there are weights for languages that the maps were not learnt from."""
        return (ANY, ANY) in self.documents

    def header(self) -> dict[str, Any]:
        """Everything but the weights, as JSON."""
        return {
            "format": FORMAT,
            "model": self.model,
            "documents": [list(key) for key in self.documents],
            "queries": list(self.queries),
            "about": dict(self.about),
            "asker": asdict(self.query_encoder) if self.query_encoder else None,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights in float16, by name."""
        arrays = {f"documents/{number}": weights for number, weights in enumerate(self.documents.values())}
        arrays |= {f"queries/{number}": weights for number, weights in enumerate(self.queries.values())}
        return {name: weights.astype(np.float16) for name, weights in arrays.items()}

    @classmethod
    def of(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Make maps from ``header`` and ``arrays``.

        Raises KeyError: an entry or an array is missing; TypeError: an entry has another type; ValueError: a weight is
        not finite, or widths differ.
        """
        documents = {
            (str(query), str(lang)): arrays[f"documents/{number}"].astype(np.float32)
            for number, (query, lang) in enumerate(header["documents"])
        }
        queries = {
            str(lang): arrays[f"queries/{number}"].astype(np.float32) for number, lang in enumerate(header["queries"])
        }
        if not all(np.isfinite(weights).all() for weights in (*documents.values(), *queries.values())):
            raise ValueError("a weight is not finite")
        query_encoder = filled(QueryEncoderSpec, header["asker"]) if header["asker"] else None
        shapes = {weights.shape for weights in documents.values()}
        for dim, width in shapes:
            query_shapes = {weights.shape for weights in queries.values()} or {(width, width)}
            if len(shapes) > 1 or query_shapes != {(query_encoder.dim if query_encoder else dim, width)}:
                raise ValueError("its maps are of different widths")
        model, about = header["model"], header["about"]
        if not (isinstance(model, str) and isinstance(about, dict)):
            raise TypeError("its model is no text, or its about is no object")
        return cls(model, documents, queries, about, query_encoder)

    def write(self, folder: Path) -> None:
        """Write ``mapping.json`` and ``maps.npz`` into an existing folder."""
        (folder / HEADER).write_text(json.dumps(self.header(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        np.savez(folder / WEIGHTS, allow_pickle=False, **self.arrays())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the files that ``write`` writes. Raises BadInput: there are none, or they are damaged or too old."""
        if (folder / NETWORKS).is_dir():
            raise BadInput(
                f"{folder} holds networks, which no version ranks with any more; learn maps: dragoman train mapping "
                f"SOURCE… -o {folder}"
            )
        if not (folder / HEADER).is_file():
            raise BadInput(f"{folder} holds no mapping; make one: dragoman train mapping SOURCE… -o {folder}")
        try:
            header = read_json(folder / HEADER)
            if header["format"] != FORMAT:
                raise BadInput(f"{folder / HEADER} is of another version; make it again: dragoman train mapping")
            with np.load(folder / WEIGHTS, allow_pickle=False) as arrays:
                return cls.of(header, arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise BadInput(
                f"the mapping in {folder} can't be read ({error}); make it again: dragoman train mapping"
            ) from error


WEIGHTS = "maps.npz"
NETWORKS = "nca"
"""Folder in which mappings of earlier versions have networks."""


def _round(weights: np.ndarray) -> FloatArray:
    with np.errstate(over="ignore"):
        rounded = weights.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise BadInput("the map has weights too large to be kept; learn it with a ridge: --ridge 0.1, or none given")
    return rounded
