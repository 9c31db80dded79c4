"""The calibration: what a collection has learnt, by which its languages are comparable at search time.

Within one target language the correction of documents is a correction of the query: q·(d − μ) = q·d − const. So kNN
takes a corrected query; lengths of corrected documents and the margin are computed on the candidates.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal, Self

import numpy as np

from encoders.document import FloatArray, Int8Array, short_hash, unit_rows
from encoders.errors import StoreError
from encoders.maps.space_maps import SpaceMaps
from encoders.methods.vector_parts import VectorParts
from query.calibration.comparison_space import PLAIN_SPACE, CorrectedQueries, Space, read_space, unit_or
from query.calibration.margin import NEIGHBOURS, check_balance, neighbourhood

_FORMAT = 3
_EARLIER = 2
"""Format of calibrations that kept more settings: its means, banks and maps are read, its settings are not."""
BALANCE = 0.75
"""Balance unless a person or judgements decide it: the whole mean of a language is taken out, and the margin has
the exponent ½ (docs/decisions/0005)."""
NONE = "none"
"""The id that stands for ranking without a calibration."""
BAR = 0.5
"""Least bar of mates."""
LIKELY = 0.3
"""Cosine of a good candidate, without means, where no documents were sampled."""
SMALLEST_BANK = 32
"""Minimum pseudo-queries of a bank, filled up from other languages: fewer make a noisy neighbourhood."""


VectorKind = Literal["document", "passage", "query"]
"""What vectors are of; the queries of statistics are pseudo-queries."""

Means = Mapping[VectorKind, FloatArray]
"""The (dim,) mean of each kind of vectors, which is taken out of them."""


class UnreadableCalibration(StoreError):
    """A stored calibration is damaged, or was made by another version."""


def no_sample() -> Int8Array:
    """The sample of a language of which no documents were drawn."""
    return np.zeros((0, 0), dtype=np.int8)


@dataclass(frozen=True)
class LanguageStatistics:
    """Statistics of one language."""

    documents: int  # number of document vectors in the mean
    means: Means  # of each kind of vectors: a sentence lies elsewhere than a page; shrunk if the documents are few
    bank: Int8Array  # (n, dim) int8 pseudo-queries, encoded as queries; only their direction counts
    sources: tuple[str, ...]  # (n,) id of each pseudo-query's document; empty for a query out of a log
    # (m, dim) int8 vectors of documents drawn at random; only their direction counts
    sample: Int8Array = field(default_factory=no_sample)


@dataclass(frozen=True)
class Bank:
    """The n corrected pseudo-queries of a language."""

    queries: CorrectedQueries
    sources: tuple[str, ...]  # (n,) ids of their documents, each once; empty for queries out of a log
    neighbours: int  # number of pseudo-queries in a document's neighbourhood

    @cached_property
    def _columns(self) -> Mapping[str, int]:
        return {doc_id: column for column, doc_id in enumerate(self.sources)}

    def neighbourhoods(self, cosines: FloatArray, doc_ids: Sequence[str]) -> FloatArray:
        """(documents,) means of the largest (documents, n) ``cosines``; cosines with own pseudo-queries become −∞."""
        for row, doc_id in enumerate(doc_ids):
            if doc_id in self._columns:
                cosines[row, self._columns[doc_id]] = -np.inf
        return neighbourhood(cosines, self.neighbours)


@dataclass(frozen=True)
class Calibration:
    """What a collection has learnt."""

    model: str
    languages: Mapping[str, LanguageStatistics]  # statistics by normalised language tag, in order
    pooled: Means  # means of the vectors of all languages, for a language without statistics
    vector_parts: VectorParts
    balance: float = BALANCE  # of a search that states none; 0: nothing is balanced … 1: every language is equal
    mates: bool = False  # whether documents about the same thing in several languages take part in each other's scores
    bar: float = BAR  # cosine from which a mate counts fully, without the languages' means
    space: Space = PLAIN_SPACE  # how corrected queries and documents are compared
    earlier_id: str = ""  # id of the earlier version's calibration that this was read from; empty: none

    def __post_init__(self) -> None:
        check_balance(self.balance)

    @classmethod
    def none(cls, model: str, vector_parts: VectorParts) -> Self:
        """The calibration that corrects nothing: plain cosine, with the weights of ``vector_parts``."""
        zeros = np.zeros(sum(vector_parts.widths), dtype=np.float32)
        return cls(model, {}, dict.fromkeys(_PREFIXES, zeros), vector_parts, balance=0.0)

    @cached_property
    def id(self) -> str:
        """Hash of all that decides a ranking."""
        if self.earlier_id:
            return self.earlier_id
        header, arrays = self._header_and_arrays()
        return short_hash(json.dumps(header, sort_keys=True), *(arrays[name].tobytes() for name in sorted(arrays)))

    def mean(self, kind: VectorKind, lang: str) -> FloatArray:
        """The mean of a language's vectors of one kind; the pooled mean for a language without statistics."""
        statistics = self.languages.get(lang)
        return (statistics.means if statistics else self.pooled)[kind]

    def queries_in_stored_space(self, queries: FloatArray, lang: str) -> FloatArray:
        """Queries as vectors of the stored documents' model: through the map if another encoder made the queries."""
        maps = self.space.maps_of_documents
        weights = maps.document(lang, lang) if isinstance(maps, SpaceMaps) and maps.query_encoder else None
        if weights is None:
            return queries
        mapped = (queries - self.mean("query", lang)) @ weights.T + self.mean("document", lang)
        return unit_rows(np.asarray(mapped, dtype=np.float32))

    def correct_documents(
        self,
        vectors: FloatArray,
        languages: Mapping[str, slice],
        share: float = 1.0,
        kind: Literal["document", "passage"] = "document",
        *,
        query_lang: str = "",
    ) -> FloatArray:
        """(n, dim) unit rows in the space: documents or passages without a share (0 to 1) of their language's mean.

        The (n, dim) ``vectors`` are as encoded. ``languages`` are the rows of each language. ``query_lang`` is the
        language of the queries that they are compared with.
        """
        return self._space(share).documents(self._without(vectors, languages, share, kind), languages, query_lang)

    def correct_queries(self, vectors: FloatArray, lang: str, share: float = 1.0) -> FloatArray:
        """Queries of one language without the mean of that language's queries, in the space: unit rows."""
        without = self._without(vectors, {lang: slice(0, len(vectors))}, share, "query")
        return self._space(share).queries(without, lang)

    def compared(self, queries: FloatArray, lang: str, share: float = 1.0) -> CorrectedQueries:
        """Corrected queries of one language as they are compared with documents of each language."""
        return self._space(share).compared(queries, lang)

    def queries_for_store(self, queries: FloatArray, target: str, share: float = 1.0, *, lang: str = "") -> FloatArray:
        """Queries of a language for kNN over a target's raw vectors; the queries' parts carry the whole weight."""
        return self.vector_parts.weighed(self._space(share).for_store(queries, lang, target))

    def candidate_queries(self, rows: FloatArray, target: str, share: float = 1.0, *, lang: str = "") -> FloatArray:
        """``queries_for_store`` whose nearest raw vectors have, to first order, the largest cosines without the mean.

        The cosine c = q·(d − μ) ÷ |d − μ| of the best documents is about that of the nearest of a sample, and near c
        cosines order as q·d + c d·μ ÷ √(1 − μ²) does. Queries for which ``lengths_are_unknown`` stay as they are.
        """
        queries, mean = self.queries_for_store(rows, target, share, lang=lang), self.mean("document", target)
        if self.lengths_are_unknown:
            return queries
        square = share * (2 - share) * float(mean @ mean)
        sample = self._sample(target, share)
        likely = (queries @ sample.T).max(axis=1, keepdims=True) if len(sample) else np.float32(LIKELY)
        return queries + likely * np.float32(share / max(1 - square, 1e-6) ** 0.5) * mean

    @cached_property
    def _sample(self) -> Callable[[str, float], FloatArray]:
        """Makes (m, dim) unit vectors of a language's sampled documents without a share of the mean."""

        def corrected(lang: str, share: float) -> FloatArray:
            sample = unit_rows(self.languages[lang].sample if lang in self.languages else no_sample())
            return self._without(sample, {lang: slice(0, len(sample))}, share, "document") if len(sample) else sample

        return cache(corrected)

    @property
    def lengths_are_unknown(self) -> bool:
        """Whether the mean says nothing of lengths: combined vectors have one of each part, mapped vectors others."""
        return len(self.vector_parts.widths) > 1 or self.space.maps_of_documents is not None

    def _space(self, share: float) -> Space:
        """The space, which is made for vectors without means; another encoder's queries always need it."""
        return self.space if share == 1.0 or self.space.query_encoder else PLAIN_SPACE

    def _without(
        self, vectors: FloatArray, languages: Mapping[str, slice], share: float, kind: VectorKind
    ) -> FloatArray:
        """Vectors without the mean of each language; a part that would become zero is left unchanged."""
        vectors = self.vector_parts.unit(vectors)
        if share == 0.0 or not languages:
            return self.vector_parts.weighed(vectors)
        means = np.stack([self.mean(kind, lang) for lang in languages]) * np.float32(share)
        corrected = np.repeat(means, [rows.stop - rows.start for rows in languages.values()], axis=0)
        np.subtract(vectors, corrected, out=corrected)
        if len(self.vector_parts.widths) == 1:
            return unit_or(corrected, vectors)
        known = self.vector_parts.known(vectors)
        parts = [  # a part that is zero in the vectors stays zero
            np.where(has_part[:, None], unit_or(corrected[:, columns], vectors[:, columns]), np.float32(0))
            for columns, has_part in zip(self.vector_parts.slices, known.T, strict=True)
        ]
        return self.vector_parts.weighed(np.concatenate(parts, axis=1))

    def bank(self, lang: str, share: float = 1.0) -> Bank:
        """Corrected pseudo-queries of a language; if it has few, as many from each other language."""
        nothing = LanguageStatistics(0, {}, np.zeros((0, len(self.pooled["query"])), np.int8), ())
        drawn = {lang: self.languages.get(lang, nothing)}
        missing = SMALLEST_BANK - len(drawn[lang].sources)
        if missing > 0:
            others = {code: other for code, other in self.languages.items() if code != lang and other.sources}
            count = -(-missing // max(len(others), 1))
            for code, other in others.items():
                drawn[code] = replace(other, bank=other.bank[:count], sources=other.sources[:count])
        rows = np.concatenate([self.correct_queries(unit_rows(part.bank), code, share) for code, part in drawn.items()])
        sources = tuple(source for part in drawn.values() for source in part.sources)
        return Bank(self.compared(rows, lang, share), sources, min(NEIGHBOURS, max(1, len(rows) // 8)))

    def to_bytes(self) -> bytes:
        """The artifact: a NumPy archive with a JSON header."""
        header, arrays = self._header_and_arrays()
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
        return buffer.getvalue()

    def _header_and_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        of_space, arrays = self.space.header_and_arrays()
        header = {
            "format": _FORMAT,
            "model": self.model,
            "parts": [self.vector_parts.widths, self.vector_parts.weights],
            "balance": self.balance,
            "mates": self.mates,
            "bar": self.bar,
            "languages": {
                lang: {"documents": statistics.documents, "sources": statistics.sources}
                for lang, statistics in self.languages.items()
            },
            **of_space,
        }
        arrays |= {f"pooled_{_PREFIXES[kind]}".rstrip("_") + "/mean": mean for kind, mean in self.pooled.items()}
        for lang, statistics in self.languages.items():
            place = f"languages/{lang}"
            arrays |= {f"{place}/{_PREFIXES[kind]}mean": mean for kind, mean in statistics.means.items()}
            arrays[f"{place}/bank"] = statistics.bank
            arrays |= {f"{place}/sample": statistics.sample} if len(statistics.sample) else {}
        return header, arrays

    @classmethod
    def from_bytes(cls, data: bytes, stored_id: str = "") -> Self:
        """Read an artifact with its id. Raises UnreadableCalibration: it is damaged, or of an unknown version."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                header, arrays = json.loads(str(archive["header"])), {name: archive[name] for name in archive.files}
            if header["format"] not in (_EARLIER, _FORMAT):
                raise UnreadableCalibration(
                    "the calibration was made by another version of Dragoman; make another: dragoman calibrate"
                )
            languages = {
                lang: LanguageStatistics(
                    entry["documents"],
                    {kind: arrays[f"languages/{lang}/{prefix}mean"] for kind, prefix in _PREFIXES.items()},
                    arrays[f"languages/{lang}/bank"],
                    tuple(entry["sources"]),
                    arrays.get(f"languages/{lang}/sample", no_sample()),
                )
                for lang, entry in header["languages"].items()
            }
            return cls(
                header["model"],
                languages,
                {kind: arrays[f"pooled_{prefix}".rstrip("_") + "/mean"] for kind, prefix in _PREFIXES.items()},
                VectorParts(*(tuple(numbers) for numbers in header["parts"])),
                header["balance"],
                bool(header.get("mates", header.get("lift"))),
                header.get("bar", BAR) if header["format"] == _FORMAT else BAR,
                read_space(header, arrays),
                stored_id if header["format"] == _EARLIER else "",
            )
        except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise UnreadableCalibration(
                f"the calibration can't be read ({error}); make another: dragoman calibrate"
            ) from error


_PREFIXES: Mapping[VectorKind, str] = {"document": "", "passage": "passage_", "query": "query_"}
"""Beginnings of the names of a language's means in the artifact."""
