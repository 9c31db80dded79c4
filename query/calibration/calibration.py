"""The calibration: what makes languages comparable at search time, without touching the index.

Documents are stored as the encoder made them. Within one target language every linear correction of documents is a
correction of the query: q·(d − μ) = q·d − const, q·(I − UUᵀ)d = ((I − UUᵀ)q)·d. Weights of a vector's parts scale
the query's. So kNN is asked with a corrected query, and what does not move over, the lengths of the
corrected document's parts and the margin, is exact on the candidates.
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
"""Pseudo-queries that a bank is filled up to with those of other languages: fewer make a noisy neighbourhood."""


@dataclass(frozen=True)
class LanguageStatistics:
    """What is known of one language.

    Attributes:
        documents: how many vectors its mean was taken of.
        mean: (dim,) mean of its documents, drawn towards the pooled mean where they are few.
        passage_mean: (dim,) mean of its documents' passages, likewise: a sentence lies elsewhere than a page.
        query_mean: (dim,) mean of its pseudo-queries, likewise.
        subspace: (rank, dim) orthonormal rows that its documents share; none where the mean is taken out instead.
        passage_subspace: (rank, dim) the same of its passages.
        query_subspace: (rank, dim) the same of its pseudo-queries.
        bank: (n, dim) int8 pseudo-queries, encoded as queries; only their direction counts.
        sources: (n,) id of the document each comes from; empty for one out of a query log.
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
    """What vectors of one kind share: one or the other is taken out.

    Attributes:
        mean: (dim,) their mean.
        subspace: (rank, dim) orthonormal rows; none where the mean is taken out.
    """

    mean: FloatArray
    subspace: FloatArray


@dataclass(frozen=True)
class Calibration:
    """Statistics of a collection's languages, and how to rank with them.

    Attributes:
        model: id of the vectors that it is for.
        languages: by normalised tag, in order.
        pooled: of documents of all languages: what stands in for a language that is not here.
        pooled_passage: the same of passages.
        pooled_query: the same of pseudo-queries.
        parts: what the vectors are made of, and how much each part counts.
        rank: directions of the language subspace that are taken out; 0: the mean is.
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
        """The one that leaves everything as the encoder made it: plain cosine, parts counting as they are given."""
        dim = sum(parts.widths)
        nothing = Component(np.zeros(dim, dtype=np.float32), np.zeros((0, dim), dtype=np.float32))
        return cls(model, {}, nothing, nothing, nothing, parts, margin="absolute", balance=0.0)

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        header, arrays = self._parts()
        return short_hash(json.dumps(header, sort_keys=True), *(arrays[name].tobytes() for name in sorted(arrays)))

    def with_choice(self, *, balance: float, margin: Margin) -> Calibration:
        """The same statistics, ranked with by other settings."""
        return replace(self, balance=balance, margin=margin)

    def with_weights(self, weights: Sequence[float]) -> Calibration:
        """The same with parts that count otherwise.

        Raises:
            BadInput: there are not as many weights as parts, or they are none.
        """
        return replace(self, parts=VectorParts(self.parts.widths, tuple(weights)))

    def with_rank(self, rank: int) -> Calibration:
        """The same with fewer directions taken out: the first ones of each subspace."""
        rows = rank * len(self.parts.widths)
        languages = {
            lang: replace(one, **{name: getattr(one, name)[:rows] for name in _ARRAYS if name.endswith("subspace")})
            for lang, one in self.languages.items()
        }
        pooled = {kind: replace(one, subspace=one.subspace[:rows]) for kind in _POOLED if (one := getattr(self, kind))}
        return replace(self, languages=languages, rank=rank, **pooled)

    def towards(self, lang: str) -> Calibration:  # noqa: ARG002
        """The same for queries of a language: no different, unless it has maps."""
        return self

    @property
    def width(self) -> int:
        """Of the space that queries and documents are compared in."""
        return len(self.pooled.mean)

    def as_stored(self, queries: FloatArray, lang: str) -> FloatArray:  # noqa: ARG002
        """Queries as vectors of the stored documents' model."""
        return queries

    def documents(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Documents of one language without its component, (n, dim) unit rows.

        Args:
            vectors: (n, dim) as the encoder made them.
            lang: their language.
            share: of the component, 0 to 1.
        """
        return self.mixed(vectors, {lang: slice(0, len(vectors))}, share)

    def mixed(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Documents of several languages, one's rows after the other's, each without its own component."""
        components = [
            Component(one.mean, one.subspace) if (one := self.languages.get(lang)) else self.pooled
            for lang in languages
        ]
        return self._without(vectors, list(languages.values()), components, share)

    def passages(self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0) -> FloatArray:
        """Passages of documents of several languages, likewise, by the statistics of passages."""
        components = [
            Component(one.passage_mean, one.passage_subspace)
            if (one := self.languages.get(lang))
            else self.pooled_passage
            for lang in languages
        ]
        return self._without(vectors, list(languages.values()), components, share)

    def queries(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Queries of one language without its component, (n, dim) unit rows: by the statistics of queries."""
        known = self.languages.get(lang)
        component = Component(known.query_mean, known.query_subspace) if known else self.pooled_query
        return self._without(vectors, [slice(0, len(vectors))], [component], share)

    def _without(
        self, vectors: FloatArray, parts: Sequence[slice], components: Sequence[Component], share: float
    ) -> FloatArray:
        """Weighed unit parts of what is left; a part that its component makes up wholly stays, for want of another."""
        vectors = self.parts.unit(vectors)
        if share == 0.0 or not parts:
            return self.parts.weighed(vectors)
        if self.rank:
            outside = [
                _outside(vectors[rows], one.subspace, share) for rows, one in zip(parts, components, strict=True)
            ]
            return self._unit_or(np.concatenate(outside), vectors)
        means = np.stack([one.mean for one in components]) * np.float32(share)
        return self._unit_or(vectors - np.repeat(means, [rows.stop - rows.start for rows in parts], axis=0), vectors)

    def _unit_or(self, left: FloatArray, vectors: FloatArray) -> FloatArray:
        if len(self.parts.widths) == 1:
            return unit_or(left, vectors)
        known = self.parts.known(vectors)
        united = [
            np.where(seen[:, None], unit_or(left[:, columns], vectors[:, columns]), np.float32(0))
            for columns, seen in zip(self.parts.slices, known.T, strict=True)
        ]
        return self.parts.weighed(np.concatenate(united, axis=1))

    def asked(self, queries: FloatArray, target: str, share: float = 1.0) -> FloatArray:
        """Corrected queries as raw vectors of a target language are to be asked; the same object if no different.

        Stored vectors hold their parts with equal weight, so the queries' parts carry the whole of it.
        """
        queries = self.parts.weighed(queries)
        if not self.rank:
            return queries
        return _outside(queries, self.languages.get(target, self.pooled).subspace, share)

    def bank(self, lang: str, share: float = 1.0) -> tuple[FloatArray, tuple[str, ...]]:
        """Corrected pseudo-queries of a language, (n, dim) unit rows, and the documents they come from.

        Where the language has few, those of others fill them up, evenly; so does a language that is not here at all.
        """
        known = self.languages.get(lang)
        vectors = [self._pseudo_queries(lang, known, share)] if known else []
        sources = list(known.sources) if known else []
        missing = _SMALLEST_BANK - len(sources)
        if missing > 0:
            others = {code: one for code, one in self.languages.items() if code != lang and one.sources}
            each = -(-missing // max(len(others), 1))
            for code, one in others.items():
                vectors.append(self._pseudo_queries(code, one, share)[:each])
                sources += one.sources[:each]
        return np.concatenate([*vectors, np.zeros((0, self.width), np.float32)]), tuple(sources)

    def _pseudo_queries(self, lang: str, known: LanguageStatistics, share: float) -> FloatArray:
        return self.queries(unit_rows(known.bank), lang, share)

    def to_bytes(self) -> bytes:
        """The artifact: a NumPy archive."""
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
                lang: {"documents": one.documents, "sources": one.sources} for lang, one in self.languages.items()
            },
        }
        arrays = {
            f"{kind}/{name}": getattr(getattr(self, kind), name) for kind in _POOLED for name in ("mean", "subspace")
        }
        for lang, one in self.languages.items():
            for name in _ARRAYS:
                arrays[f"languages/{lang}/{name}"] = getattr(one, name)
        return header, arrays

    @classmethod
    def from_bytes(cls, data: bytes) -> Calibration:
        """Read an artifact.

        Raises:
            StoreError: it is damaged, or was made by another version.
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
                parts = VectorParts(*(tuple(one) for one in header["parts"]))
                return cls(header["model"], languages, pooled[0], pooled[1], pooled[2], parts, **settings)
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(f"the calibration can't be read ({error}); make another: dragoman calibrate") from error


_ARRAYS = ("mean", "passage_mean", "query_mean", "subspace", "passage_subspace", "query_subspace", "bank")

_POOLED = ("pooled", "pooled_passage", "pooled_query")


def _outside(vectors: FloatArray, subspace: FloatArray, share: float) -> FloatArray:
    """Rows without a share of what lies in a subspace."""
    return np.asarray(vectors - np.float32(share) * (vectors @ subspace.T) @ subspace, dtype=np.float32)


def unit_or(left: FloatArray, vectors: FloatArray) -> FloatArray:
    """Unit rows of ``left``; of the vectors themselves where nothing is left."""
    lengths = np.sqrt(np.einsum("ij,ij->i", left, left))[:, None]
    if lengths.min(initial=np.inf) > _NOTHING_LEFT:
        return np.asarray(left / lengths, dtype=np.float32)
    return unit_rows(np.where(lengths > _NOTHING_LEFT, left, vectors).astype(np.float32))


_NOTHING_LEFT = 1e-4
