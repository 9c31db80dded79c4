"""Linear maps of documents and of queries into spaces where they compare: what a mapping's folder and a search hold."""

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

FORMAT = 1
HEADER = "mapping.json"
ANY = ""
"""Stands for every language that is not named."""


@dataclass(frozen=True)
class QueryEncoderSpec:
    """The encoder of queries where it is another than the stored documents'.

    Attributes:
        encoder: name or folder.
        method: how it makes a document's vector.
        model: id of its vectors.
        dim: their width.
    """

    encoder: str
    method: str
    model: str
    dim: int


@dataclass(frozen=True)
class SpaceMaps:
    """What centred rows are multiplied by from the right before they are compared.

    Attributes:
        model: id of the stored documents' vectors.
        documents: (dim, k) by language of the query and of the document; either may be ``ANY``.
        queries: (query dim, k) by language of the query, or ``ANY``; where there is none a query stays as it is.
        about: how the maps were made, for people.
        asker: encoder of the queries, where it is another than the documents'.
    """

    model: str
    documents: Mapping[tuple[str, str], FloatArray]
    queries: Mapping[str, FloatArray] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    asker: QueryEncoderSpec | None = None

    @classmethod
    def rounded(
        cls,
        model: str,
        documents: Mapping[tuple[str, str], np.ndarray],
        queries: Mapping[str, np.ndarray] | None = None,
        *,
        about: Mapping[str, Any] | None = None,
        asker: QueryEncoderSpec | None = None,
    ) -> Self:
        """Of weights in any precision, as they will be once written: there are many, and they are kept in float16.

        Raises:
            BadInput: a weight is too large for that.
        """
        return cls(
            model,
            {key: _round(weights) for key, weights in documents.items()},
            {key: _round(weights) for key, weights in (queries or {}).items()},
            about or {},
            asker,
        )

    def document(self, query_lang: str, lang: str) -> FloatArray | None:
        """Weights for documents of a language when they are asked in another; none: they stay as they are."""
        for key in ((query_lang, lang), (ANY, lang), (ANY, ANY)):
            if key in self.documents:
                return self.documents[key]
        return None

    def query(self, lang: str) -> FloatArray | None:
        """Weights for queries of a language; none: they stay as they are."""
        return self.queries.get(lang, self.queries.get(ANY))

    @property
    def width(self) -> int | None:
        """Of the space that is compared in; none: as wide as queries are."""
        known = next(iter(self.queries.values()), None)
        return None if known is None else int(known.shape[1])

    def mapped(self, query_lang: str, lang: str, rows: FloatArray) -> FloatArray:
        """Centred documents of a language as they compare with queries of another, (n, k)."""
        weights = self.document(query_lang, lang)
        return rows if weights is None else rows @ weights

    def mapped_queries(self, lang: str, rows: FloatArray) -> FloatArray:
        """Centred queries of a language as they are compared, (n, k) unit rows; as they are where nothing maps them."""
        weights = self.query(lang)
        return rows if weights is None else unit_rows(rows @ weights)

    def asking(self, query_lang: str, lang: str, queries: FloatArray) -> FloatArray:
        """Mapped queries as they ask for a language's documents, (n, dim) unit rows: q·(W d) = (Wᵀq)·d."""
        weights = self.document(query_lang, lang)
        return queries if weights is None else unit_rows(queries @ weights.T)

    def compared(self, lang: str, other: str, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rows that compare queries of a language with documents of another, centred before: (n, k) and (m, k)."""
        for_queries = self.query(lang)
        return x if for_queries is None else x @ for_queries, self.mapped(lang, other, y)

    def knows(self, lang: str) -> bool:
        """Whether a language is among those that the maps were learnt of; a pivot has none of its own."""
        learnt = lang in self.about.get("languages", ()) or any(lang == document for _, document in self.documents)
        return learnt or self.asker is not None

    @property
    def stands_in(self) -> bool:
        """Whether something compares the languages that it doesn't know."""
        return (ANY, ANY) in self.documents

    def header(self) -> dict[str, Any]:
        """All but the weights, as JSON carries it."""
        return {
            "format": FORMAT,
            "model": self.model,
            "documents": [list(key) for key in self.documents],
            "queries": list(self.queries),
            "about": dict(self.about),
            "asker": asdict(self.asker) if self.asker else None,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights by name, float16."""
        found = {f"documents/{number}": one for number, one in enumerate(self.documents.values())}
        found |= {f"queries/{number}": one for number, one in enumerate(self.queries.values())}
        return {name: one.astype(np.float16) for name, one in found.items()}

    @classmethod
    def of(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """What ``header`` and ``arrays`` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a weight is not finite, or maps lead from or into spaces of different widths.
        """
        documents = {
            (str(query), str(lang)): arrays[f"documents/{number}"].astype(np.float32)
            for number, (query, lang) in enumerate(header["documents"])
        }
        queries = {
            str(lang): arrays[f"queries/{number}"].astype(np.float32) for number, lang in enumerate(header["queries"])
        }
        if not all(np.isfinite(one).all() for one in (*documents.values(), *queries.values())):
            raise ValueError("a weight is not finite")
        asker = QueryEncoderSpec(**header["asker"]) if header["asker"] else None
        shapes = {one.shape for one in documents.values()}
        for dim, width in shapes:
            asked = asker.dim if asker else dim
            fitting = all(one.shape == (asked, width) for one in queries.values()) if queries else width == asked
            if len(shapes) > 1 or not fitting:
                raise ValueError("its maps are of different widths")
        return cls(header["model"], documents, queries, header["about"], asker)

    def write(self, folder: Path) -> None:
        """Write ``mapping.json`` and ``maps.npz`` into a folder that is there."""
        (folder / HEADER).write_text(json.dumps(self.header(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        np.savez(folder / _WEIGHTS, allow_pickle=False, **self.arrays())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what ``write`` wrote.

        Raises:
            BadInput: the folder holds no linear mapping, or a damaged one.
        """
        if not (folder / HEADER).is_file():
            raise BadInput(f"{folder} holds no mapping; make one: dragoman train mapping SOURCE… -o {folder}")
        try:
            header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
            if header["format"] != FORMAT:
                raise BadInput(f"{folder / HEADER} is of another version; make it again: dragoman train mapping")
            with np.load(folder / _WEIGHTS, allow_pickle=False) as arrays:
                return cls.of(header, arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise BadInput(
                f"the mapping in {folder} can't be read ({error}); make it again: dragoman train mapping"
            ) from error


_WEIGHTS = "maps.npz"


def _round(weights: np.ndarray) -> FloatArray:
    with np.errstate(over="ignore"):
        kept = weights.astype(np.float16).astype(np.float32)
    if not np.isfinite(kept).all():
        raise BadInput("the map has weights too large to be kept; learn it with a ridge: --ridge 0.1, or none given")
    return kept
