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
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray, Int8Array, short_hash, unit_rows
from encoders.errors import StoreError
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration_choice import BAR, NO_MATES, NO_TITLES, USUAL_MIX, CalibrationChoice, Mix
from query.calibration.corrected_queries import CorrectedQueries
from query.calibration.margin import Margin, neighbourhood, neighbourhood_without

_FORMAT = 2
_SMALLEST_BANK = 32
"""Minimum pseudo-queries of a bank, filled up from other languages: fewer make a noisy neighbourhood."""


VectorKind = Literal["document", "passage", "query"]
"""What vectors are of; the queries of statistics are pseudo-queries."""

DocumentKind = Literal["document", "passage"]


class UnreadableCalibration(StoreError):
    """A stored calibration is damaged, or was made by another version."""


@dataclass(frozen=True)
class Component:
    """The common component of vectors of one kind: the mean or the subspace is taken out.

    Attributes:
        mean: (dim,) the vectors' mean.
        subspace: (rank, dim) orthonormal rows, the vectors' common directions; no rows if the mean is taken out.
    """

    mean: FloatArray
    subspace: FloatArray

    def narrowed(self, rows: int) -> Component:
        """The component with the first rows of its subspace."""
        return Component(self.mean, self.subspace[:rows])


Components = Mapping[VectorKind, Component]


@dataclass(frozen=True)
class LanguageStatistics:
    """Statistics of one language.

    Attributes:
        documents: number of document vectors in the mean.
        components: the component of each kind of vectors: a sentence lies elsewhere than a page. Means are shrunk
            towards the pooled mean if the documents are few.
        bank: (n, dim) int8 pseudo-queries, encoded as queries; only their direction counts.
        sources: (n,) id of each pseudo-query's document; empty for a query out of a log.
    """

    documents: int
    components: Components
    bank: Int8Array
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Bank:
    """The n corrected pseudo-queries of a language.

    Attributes:
        sources: (n,) ids of their documents.
        neighbours: number of pseudo-queries in a document's neighbourhood.
        own_rows: (q,) rows of queries that are themselves in the bank, −1 for a query that is not; none: no query is.
    """

    queries: CorrectedQueries
    sources: tuple[str, ...]
    neighbours: int
    own_rows: npt.NDArray[np.intp] | None = None

    @cached_property
    def _columns(self) -> dict[str, list[int]]:
        columns: dict[str, list[int]] = {}
        for column, doc_id in enumerate(self.sources):
            columns.setdefault(doc_id, []).append(column)
        return columns

    def exclude_sources(self, cosines: FloatArray, doc_ids: Sequence[str]) -> None:
        """Set the (documents, n) cosines of documents with their own pseudo-queries to −∞."""
        columns = self._columns
        for row, doc_id in enumerate(doc_ids):
            if doc_id in columns:
                cosines[row, columns[doc_id]] = -np.inf

    def neighbourhoods(self, cosines: FloatArray) -> FloatArray:
        """(documents,) mean of the documents' largest cosines with pseudo-queries, (documents, n).

        If queries are in the bank, the mean is (q, documents), for each query without the query itself.
        """
        if self.own_rows is None:
            return neighbourhood(cosines, self.neighbours)
        return neighbourhood_without(cosines, self.own_rows, self.neighbours)


@dataclass(frozen=True)
class Calibration:
    """Statistics of a collection's languages, and how to rank with them.

    Attributes:
        languages: statistics by normalised language tag, in order.
        pooled: components of the vectors of all languages, for a language without statistics.
        rank: number of directions of the language subspace that are taken out; 0: the mean is taken out.
        balance: 0: nothing is balanced … 1: every language is equal.
        neighbours: k of the margin's two means.
        lift, bar, second_look, mix: as in ``CalibrationChoice``.
    """

    model: str
    languages: Mapping[str, LanguageStatistics]
    pooled: Components
    vector_parts: VectorParts
    rank: int = 0
    margin: Margin = "ratio"
    balance: float = 0.75
    neighbours: int = 3
    lift: float = 0.0
    bar: float = BAR
    second_look: bool = False
    mix: Mix = USUAL_MIX

    @classmethod
    def none(cls, model: str, vector_parts: VectorParts) -> Calibration:
        """The calibration that corrects nothing: plain cosine, with the weights of ``vector_parts``."""
        dim = sum(vector_parts.widths)
        nothing = Component(np.zeros(dim, dtype=np.float32), np.zeros((0, dim), dtype=np.float32))
        return cls(model, {}, dict.fromkeys(_KINDS, nothing), vector_parts, margin="absolute", balance=0.0)

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        header, arrays = self._header_and_arrays()
        return short_hash(json.dumps(header, sort_keys=True), *(arrays[name].tobytes() for name in sorted(arrays)))

    @property
    def choice(self) -> CalibrationChoice:
        """How the calibration ranks."""
        weights = self.vector_parts.weights
        return CalibrationChoice(
            self.rank, self.margin, self.balance, weights, self.lift, self.bar, self.second_look, self.mix
        )

    def with_choice(self, choice: CalibrationChoice) -> Calibration:
        """The same statistics with a choice; without weights, the present weights stay.

        The rank is that of the statistics.

        Raises:
            BadInput: there are not as many weights as parts.
        """
        settings = {name: getattr(choice, name) for name in ("margin", "balance", *NO_MATES, "mix")}
        calibration = replace(self, **settings)
        return calibration.with_weights(choice.weights) if choice.weights else calibration

    def with_weights(self, weights: Sequence[float]) -> Calibration:
        """The same calibration with other weights of the parts.

        Raises:
            BadInput: there are not as many weights as parts, or a weight is not valid.
        """
        return replace(self, vector_parts=VectorParts(self.vector_parts.widths, tuple(weights)))

    def with_rank(self, rank: int) -> Calibration:
        """The same calibration with fewer directions taken out: the first directions of each subspace."""
        rows = rank * len(self.vector_parts.widths)

        def narrowed(components: Components) -> Components:
            return {kind: component.narrowed(rows) for kind, component in components.items()}

        languages = {
            lang: replace(statistics, components=narrowed(statistics.components))
            for lang, statistics in self.languages.items()
        }
        return replace(self, languages=languages, pooled=narrowed(self.pooled), rank=rank)

    def for_queries_in(self, lang: str) -> Calibration:  # noqa: ARG002
        """The calibration for queries of a language: itself, unless it has maps."""
        return self

    def component(self, kind: VectorKind, lang: str) -> Component:
        """The component of a language's vectors of one kind; the pooled component for a language without statistics."""
        statistics = self.languages.get(lang)
        return (statistics.components if statistics else self.pooled)[kind]

    @property
    def width(self) -> int:
        """Dimensions of the space that queries and documents are compared in."""
        return self.stored_width

    @property
    def stored_width(self) -> int:
        """Dimensions of the stored vectors."""
        return len(self.pooled["document"].mean)

    def queries_in_stored_space(self, queries: FloatArray, lang: str) -> FloatArray:  # noqa: ARG002
        """Queries as vectors of the stored documents' model."""
        return queries

    def comparable_with_stored(self, vectors: FloatArray, lang: str) -> FloatArray:  # noqa: ARG002
        """Stored vectors of a language's documents as vectors whose plain cosines with all others can be taken."""
        return vectors

    def correct_documents(
        self, vectors: FloatArray, languages: Mapping[str, slice], share: float = 1.0, kind: DocumentKind = "document"
    ) -> FloatArray:
        """Documents or passages without a share (0 to 1) of their language's component, (n, dim) unit rows.

        The (n, dim) vectors are as the encoder made them, language after language; ``languages`` are their rows.
        """
        return self._without(vectors, languages, share, kind)

    def correct_queries(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Queries of one language without the component of that language's queries, (n, dim) unit rows."""
        return self._without(vectors, {lang: slice(0, len(vectors))}, share, "query")

    def compared(self, queries: FloatArray, lang: str, share: float = 1.0) -> CorrectedQueries:  # noqa: ARG002
        """Corrected queries of one language as they are compared with documents: the same for all target languages."""
        return CorrectedQueries(queries)

    def _without(
        self, vectors: FloatArray, languages: Mapping[str, slice], share: float, kind: VectorKind
    ) -> FloatArray:
        """Vectors without the component of each language; a part that would become zero is left unchanged."""
        vectors = self.vector_parts.unit(vectors)
        if share == 0.0 or not languages:
            return self.vector_parts.weighed(vectors)
        components = [self.component(kind, lang) for lang in languages]
        if self.rank:
            corrected = [
                _outside(vectors[rows], component.subspace, share)
                for rows, component in zip(languages.values(), components, strict=True)
            ]
            return self._unit_or(np.concatenate(corrected), vectors)
        means = np.stack([component.mean for component in components]) * np.float32(share)
        counts = [rows.stop - rows.start for rows in languages.values()]
        return self._unit_or(vectors - np.repeat(means, counts, axis=0), vectors)

    def _unit_or(self, corrected: FloatArray, vectors: FloatArray) -> FloatArray:
        """``unit_or`` for each part, then weighed; a part that is zero in ``vectors`` stays zero."""
        if len(self.vector_parts.widths) == 1:
            return unit_or(corrected, vectors)
        known = self.vector_parts.known(vectors)
        parts = [
            np.where(has_part[:, None], unit_or(corrected[:, columns], vectors[:, columns]), np.float32(0))
            for columns, has_part in zip(self.vector_parts.slices, known.T, strict=True)
        ]
        return self.vector_parts.weighed(np.concatenate(parts, axis=1))

    def queries_for_store(self, queries: FloatArray, target: str, share: float = 1.0) -> FloatArray:
        """Corrected queries for kNN over a target language's raw vectors; the same object if nothing changes.

        Stored vectors hold their parts with equal weight, so the queries' parts carry the whole weight.
        """
        queries = self.vector_parts.weighed(queries)
        if not self.rank:
            return queries
        return _outside(queries, self.component("document", target).subspace, share)

    def bank(self, lang: str, share: float = 1.0) -> Bank:
        """Corrected pseudo-queries of a language.

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
        rows = np.concatenate([*vectors, np.zeros((0, self.width), np.float32)])
        queries = self.compared(rows, lang, share)
        return Bank(queries, tuple(sources), min(self.neighbours, max(1, len(rows) // 8)))

    def _pseudo_queries(self, lang: str, statistics: LanguageStatistics, share: float) -> FloatArray:
        return self.correct_queries(unit_rows(statistics.bank), lang, share)

    def to_bytes(self) -> bytes:
        """The artifact: a NumPy archive with a JSON header."""
        header, arrays = self._header_and_arrays()
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
        return buffer.getvalue()

    def _header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        mates = {name: getattr(self, name) for name in NO_MATES}
        header = {
            "format": _FORMAT,
            "model": self.model,
            "parts": [self.vector_parts.widths, self.vector_parts.weights],
            "rank": self.rank,
            "neighbours": self.neighbours,
            "margin": self.margin,
            "balance": self.balance,
            **(mates if mates != NO_MATES else {}),
            **({"mix": self.mix} if self.mix != NO_TITLES else {}),
            "languages": {
                lang: {"documents": statistics.documents, "sources": statistics.sources}
                for lang, statistics in self.languages.items()
            },
        }
        arrays = {
            f"{place}/{name}": getattr(self.pooled[kind], name)
            for kind, place in _POOLED.items()
            for name in ("mean", "subspace")
        }
        for lang, statistics in self.languages.items():
            place = f"languages/{lang}"
            for name in ("mean", "subspace"):
                for kind, prefix in _PREFIXES.items():
                    arrays[f"{place}/{prefix}{name}"] = getattr(statistics.components[kind], name)
            arrays[f"{place}/bank"] = statistics.bank
        return header, arrays

    @classmethod
    def from_bytes(cls, data: bytes) -> Calibration:
        """Read an artifact.

        Raises:
            UnreadableCalibration: the artifact is damaged, or was made by another version.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _FORMAT:
                    raise UnreadableCalibration(
                        "the calibration was made by another version of Dragoman; make another: dragoman calibrate"
                    )
                languages = {
                    lang: LanguageStatistics(
                        entry["documents"],
                        {kind: _component(archive, f"languages/{lang}/{prefix}") for kind, prefix in _PREFIXES.items()},
                        archive[f"languages/{lang}/bank"],
                        tuple(entry["sources"]),
                    )
                    for lang, entry in header["languages"].items()
                }
                pooled = {kind: _component(archive, f"{place}/") for kind, place in _POOLED.items()}
                vector_parts = VectorParts(*(tuple(numbers) for numbers in header["parts"]))
                settings: dict[str, Any] = {name: header[name] for name in ("rank", "neighbours", "margin", "balance")}
                settings |= {name: header.get(name, value) for name, value in NO_MATES.items()}
                settings["mix"] = Mix(*header.get("mix", NO_TITLES))
                return cls(header["model"], languages, pooled, vector_parts, **settings)
        except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise UnreadableCalibration(
                f"the calibration can't be read ({error}); make another: dragoman calibrate"
            ) from error


_KINDS: tuple[VectorKind, ...] = get_args(VectorKind)

_PREFIXES: Mapping[VectorKind, str] = {"document": "", "passage": "passage_", "query": "query_"}
"""Beginnings of the names of a language's arrays in the artifact."""

_POOLED: Mapping[VectorKind, str] = {"document": "pooled", "passage": "pooled_passage", "query": "pooled_query"}
"""Folders of the pooled components in the artifact."""


def _component(archive: Mapping[str, Any], prefix: str) -> Component:
    return Component(archive[f"{prefix}mean"], archive[f"{prefix}subspace"])


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
