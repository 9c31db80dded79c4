"""The calibration: what makes languages comparable at search time, without touching the index.

Documents are stored as the encoder made them. Within one target language every linear correction of documents is a
correction of the query: q·(d − μ) = q·d − const, q·(I − UUᵀ)d = ((I − UUᵀ)q)·d. Weights of a vector's parts scale
the query's parts. So kNN takes a corrected query. The lengths of the corrected document's parts and the margin can't
move to the query; they are computed exactly on the candidates.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from encoders.document import FloatArray, Int8Array, short_hash, unit_rows
from encoders.errors import StoreError
from encoders.methods.vector_parts import VectorParts
from query.calibration.margin import Margin

_FORMAT = 2
_SMALLEST_BANK = 32
"""Minimum pseudo-queries of a bank, filled up from other languages: fewer make a noisy neighbourhood."""


@dataclass(frozen=True)
class LanguageStatistics:
    """Statistics of one language.

    Attributes:
        documents: number of document vectors in the mean.
        mean: (dim,) mean of the documents, shrunk towards the pooled mean if they are few.
        passage_mean: (dim,) mean of the passages, shrunk likewise: a sentence lies elsewhere than a page.
        query_mean: (dim,) mean of the pseudo-queries, shrunk likewise.
        subspace: (rank, dim) orthonormal rows, the documents' common directions; no rows if the mean is taken out.
        passage_subspace: (rank, dim) the same of the passages.
        query_subspace: (rank, dim) the same of the pseudo-queries.
        bank: (n, dim) int8 pseudo-queries, encoded as queries; only their direction counts.
        sources: (n,) id of each pseudo-query's document; empty for a query out of a log.
    """

    documents: int
    mean: FloatArray
    passage_mean: FloatArray
    query_mean: FloatArray
    subspace: FloatArray
    passage_subspace: FloatArray
    query_subspace: FloatArray
    bank: Int8Array
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """The common component of vectors of one kind: the mean or the subspace is taken out.

    Attributes:
        mean: (dim,) the vectors' mean.
        subspace: (rank, dim) orthonormal rows; no rows if the mean is taken out.
    """

    mean: FloatArray
    subspace: FloatArray


@dataclass(frozen=True)
class Calibration:
    """Statistics of a collection's languages, and how to rank with them.

    Attributes:
        model: id of the vectors' model.
        languages: statistics by normalised language tag, in order.
        pooled: component of the documents of all languages, for a language without statistics.
        pooled_passage: the same of passages.
        pooled_query: the same of pseudo-queries.
        parts: the parts of the vectors, with their weights.
        rank: number of directions of the language subspace that are taken out; 0: the mean is taken out.
        margin: form of the margin.
        balance: 0: nothing is balanced … 1: every language is equal.
        neighbours: k of the margin's two means.
    """

    model: str
    languages: Mapping[str, LanguageStatistics]
    pooled: Component
    pooled_passage: Component
    pooled_query: Component
    parts: VectorParts
    rank: int = 0
    margin: Margin = "ratio"
    balance: float = 0.75
    neighbours: int = 3

    @classmethod
    def none(cls, model: str, parts: VectorParts) -> Calibration:
        """The calibration that corrects nothing: plain cosine, with the weights of ``parts``."""
        dim = sum(parts.widths)
        nothing = Component(np.zeros(dim, dtype=np.float32), np.zeros((0, dim), dtype=np.float32))
        return cls(model, {}, nothing, nothing, nothing, parts, margin="absolute", balance=0.0)

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        header, arrays = self._parts()
        return short_hash(json.dumps(header, sort_keys=True), *(arrays[name].tobytes() for name in sorted(arrays)))

    def with_choice(self, *, balance: float, margin: Margin) -> Calibration:
        """The same statistics with another balance and margin."""
        return replace(self, balance=balance, margin=margin)

    def with_weights(self, weights: Sequence[float]) -> Calibration:
        """The same calibration with other weights of the parts.

        Raises:
            BadInput: there are not as many weights as parts, or a weight is not valid.
        """
        return replace(self, parts=VectorParts(self.parts.widths, tuple(weights)))

    def with_rank(self, rank: int) -> Calibration:
        """The same calibration with fewer directions taken out: the first directions of each subspace."""
        rows = rank * len(self.parts.widths)
        subspaces = [name for name in _ARRAYS if name.endswith("subspace")]
        languages = {
            lang: replace(statistics, **{name: getattr(statistics, name)[:rows] for name in subspaces})
            for lang, statistics in self.languages.items()
        }
        pooled = {
            kind: replace(component, subspace=component.subspace[:rows])
            for kind in _POOLED
            if (component := getattr(self, kind))
        }
        return replace(self, languages=languages, rank=rank, **pooled)

    def towards(self, lang: str) -> Calibration:  # noqa: ARG002
        """The calibration for queries of a language: itself, unless it has maps."""
        return self

    @property
    def width(self) -> int:
        """Dimensions of the space that queries and documents are compared in."""
        return len(self.pooled.mean)

    def as_stored(self, queries: FloatArray, lang: str) -> FloatArray:  # noqa: ARG002
        """Queries as vectors of the stored documents' model."""
        return queries

    def documents(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Documents of one language without the language's component, (n, dim) unit rows.

        Args:
            vectors: (n, dim) as the encoder made them.
            lang: the documents' language.
            share: share of the component to take out, 0 to 1.
        """
        return self.mixed(vectors, {lang: slice(0, len(vectors))}, share)

    def mixed(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Documents of several languages, language after language, each without its language's component."""
        components = [
            Component(statistics.mean, statistics.subspace) if (statistics := self.languages.get(lang)) else self.pooled
            for lang in languages
        ]
        return self._without(vectors, list(languages.values()), components, share)

    def passages(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Passages of several languages, language after language, each without its language's passage component."""
        components = [
            Component(statistics.passage_mean, statistics.passage_subspace)
            if (statistics := self.languages.get(lang))
            else self.pooled_passage
            for lang in languages
        ]
        return self._without(vectors, list(languages.values()), components, share)

    def queries(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Queries of one language without the component of that language's queries, (n, dim) unit rows."""
        statistics = self.languages.get(lang)
        component = Component(statistics.query_mean, statistics.query_subspace) if statistics else self.pooled_query
        return self._without(vectors, [slice(0, len(vectors))], [component], share)

    def _without(
        self, vectors: FloatArray, spans: Sequence[slice], components: Sequence[Component], share: float
    ) -> FloatArray:
        """Vectors without the component of each span of rows; a part that would become zero is left unchanged."""
        vectors = self.parts.unit(vectors)
        if share == 0.0 or not spans:
            return self.parts.weighed(vectors)
        if self.rank:
            corrected = [
                _outside(vectors[rows], component.subspace, share)
                for rows, component in zip(spans, components, strict=True)
            ]
            return self._unit_or(np.concatenate(corrected), vectors)
        means = np.stack([component.mean for component in components]) * np.float32(share)
        return self._unit_or(vectors - np.repeat(means, [rows.stop - rows.start for rows in spans], axis=0), vectors)

    def _unit_or(self, corrected: FloatArray, vectors: FloatArray) -> FloatArray:
        """``unit_or`` for each part, then weighed; a part that is zero in ``vectors`` stays zero."""
        if len(self.parts.widths) == 1:
            return unit_or(corrected, vectors)
        known = self.parts.known(vectors)
        parts = [
            np.where(has_part[:, None], unit_or(corrected[:, columns], vectors[:, columns]), np.float32(0))
            for columns, has_part in zip(self.parts.slices, known.T, strict=True)
        ]
        return self.parts.weighed(np.concatenate(parts, axis=1))

    def asked(self, queries: FloatArray, target: str, share: float = 1.0) -> FloatArray:
        """Corrected queries for kNN over a target language's raw vectors; the same object if nothing changes.

        Stored vectors hold their parts with equal weight, so the queries' parts carry the whole weight.
        """
        queries = self.parts.weighed(queries)
        if not self.rank:
            return queries
        return _outside(queries, self.languages.get(target, self.pooled).subspace, share)

    def bank(self, lang: str, share: float = 1.0) -> tuple[FloatArray, tuple[str, ...]]:
        """Corrected pseudo-queries of a language, (n, dim) unit rows, and the ids of their documents.

        A language with few pseudo-queries, or without statistics, gets an equal number from each other language.
        """
        statistics = self.languages.get(lang)
        vectors = [self._pseudo_queries(lang, statistics, share)] if statistics else []
        sources = list(statistics.sources) if statistics else []
        missing = _SMALLEST_BANK - len(sources)
        if missing > 0:
            others = {code: other for code, other in self.languages.items() if code != lang and other.sources}
            count = -(-missing // max(len(others), 1))
            for code, other in others.items():
                vectors.append(self._pseudo_queries(code, other, share)[:count])
                sources += other.sources[:count]
        return np.concatenate([*vectors, np.zeros((0, self.width), np.float32)]), tuple(sources)

    def _pseudo_queries(self, lang: str, statistics: LanguageStatistics, share: float) -> FloatArray:
        return self.queries(unit_rows(statistics.bank), lang, share)

    def to_bytes(self) -> bytes:
        """The artifact: a NumPy archive with a JSON header."""
        header, arrays = self._parts()
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
        return buffer.getvalue()

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header = {
            "format": _FORMAT,
            "model": self.model,
            "parts": [self.parts.widths, self.parts.weights],
            "rank": self.rank,
            "margin": self.margin,
            "balance": self.balance,
            "neighbours": self.neighbours,
            "languages": {
                lang: {"documents": statistics.documents, "sources": statistics.sources}
                for lang, statistics in self.languages.items()
            },
        }
        arrays = {
            f"{kind}/{name}": getattr(getattr(self, kind), name) for kind in _POOLED for name in ("mean", "subspace")
        }
        for lang, statistics in self.languages.items():
            for name in _ARRAYS:
                arrays[f"languages/{lang}/{name}"] = getattr(statistics, name)
        return header, arrays

    @classmethod
    def from_bytes(cls, data: bytes) -> Calibration:
        """Read an artifact.

        Raises:
            StoreError: the artifact is damaged, or was made by another version.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _FORMAT:
                    raise StoreError(
                        "the calibration was made by another version of Dragoman; make another: dragoman calibrate"
                    )
                languages = {
                    lang: LanguageStatistics(
                        documents=entry["documents"],
                        sources=tuple(entry["sources"]),
                        **{name: archive[f"languages/{lang}/{name}"] for name in _ARRAYS},
                    )
                    for lang, entry in header["languages"].items()
                }
                settings: dict[str, Any] = {name: header[name] for name in ("rank", "margin", "balance", "neighbours")}
                pooled = [Component(archive[f"{kind}/mean"], archive[f"{kind}/subspace"]) for kind in _POOLED]
                parts = VectorParts(*(tuple(numbers) for numbers in header["parts"]))
                return cls(header["model"], languages, pooled[0], pooled[1], pooled[2], parts, **settings)
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(f"the calibration can't be read ({error}); make another: dragoman calibrate") from error


_ARRAYS = ("mean", "passage_mean", "query_mean", "subspace", "passage_subspace", "query_subspace", "bank")

_POOLED = ("pooled", "pooled_passage", "pooled_query")


def _outside(vectors: FloatArray, subspace: FloatArray, share: float) -> FloatArray:
    """Rows without a share of their component in a subspace."""
    return np.asarray(vectors - np.float32(share) * (vectors @ subspace.T) @ subspace, dtype=np.float32)


def unit_or(corrected: FloatArray, vectors: FloatArray) -> FloatArray:
    """Unit rows of ``corrected``; a row that is nearly zero there is the unit row of ``vectors``."""
    lengths = np.sqrt(np.einsum("ij,ij->i", corrected, corrected))[:, None]
    if lengths.min(initial=np.inf) > _SMALLEST_LENGTH:
        return np.asarray(corrected / lengths, dtype=np.float32)
    return unit_rows(np.where(lengths > _SMALLEST_LENGTH, corrected, vectors).astype(np.float32))


_SMALLEST_LENGTH = 1e-4
