"""The summary of a stored calibration: how it ranks, what decided that, and the migration it belongs to."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from query.calibration.calibration import BAR, Calibration

DecidedBy = Literal["judgements", "documents", "you", "default"]
"""What decided how a calibration ranks: judged topics, the collection's own documents, a person, or nothing."""
_FEW = 32
"""Number of documents below which a language is reported as having few; its mean is drawn towards that of all."""


@dataclass(frozen=True)
class MatesSummary:
    """Whether mates count, and by what that was decided."""

    count: bool  # whether mates count
    share: float  # share of the sampled documents with a confirmed mate; of two languages, with a mate
    confirmed: float | None  # share of the mates checked by a third language that it confirms; none with two languages
    queries: int = 0  # number of held-out queries that decided; 0: there were too few, or mates were unsure
    without: float = 0.0  # MAP of these queries without mates
    with_mates: float = 0.0  # MAP of these queries with mates
    bar: float = BAR  # cosine from which a mate counts fully


@dataclass(frozen=True)
class CommonSpaceSummary:
    """The common space that a calibration ranks with."""

    subjects: int  # number of subjects that the maps were learnt from
    ridge: float
    before: float  # mean reciprocal rank of the mates of pseudo-queries that taught nothing, without maps
    after: float  # the same with maps


@dataclass(frozen=True)
class Summary:
    """A calibration without its vectors."""

    balance: float
    weights: tuple[float, ...]  # weights of the parts of combined vectors; empty for one part
    languages: Mapping[str, Mapping[str, int]]  # by language, numbers of documents and of pseudo-queries
    decided_by: DecidedBy
    # what the maps that it ranks with say of themselves, the ``method`` and more; the languages of documents that are
    # ``unknown`` to them; and whether the mean of their maps ``stands_in`` there. None without maps.
    map: Mapping[str, Any] | None = None
    mates: MatesSummary | None = None  # whether mates count; none if a map or a person left nothing to decide
    common_space: CommonSpaceSummary | None = None  # the common space; none without
    is_earlier: bool = False  # whether an earlier version made the calibration, with settings that no longer exist

    @property
    def few(self) -> dict[str, int]:
        """Number of documents of each language that has few."""
        documents = {lang: counts["documents"] for lang, counts in self.languages.items()}
        return {lang: count for lang, count in documents.items() if count < _FEW}

    @property
    def migrated_from(self) -> str:
        """Id of the calibration that a migration replaced, ``none`` if it replaced none; empty without a migration."""
        return str(self.map.get("before", "")) if self.map else ""

    @property
    def migrated_to(self) -> str:
        """Id of the model of queries after a migration; empty without a migration."""
        return str(self.map.get("to", "")) if self.map else ""

    @classmethod
    def of(cls, calibration: Calibration, decided_by: DecidedBy, **others: Any) -> Self:
        """Summarise a calibration's settings and languages; ``others`` are the remaining attributes."""
        weights = calibration.vector_parts.weights
        languages = {
            lang: {"documents": statistics.documents, "pseudo_queries": len(statistics.sources)}
            for lang, statistics in calibration.languages.items()
        }
        return cls(calibration.balance, weights if len(weights) > 1 else (), languages, decided_by, **others)

    def as_json(self) -> dict[str, Any]:
        """The summary as the database and ``--json`` have it."""
        values = {**asdict(self), "weights": list(self.weights), "few": self.few}
        del values["is_earlier"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what ``as_json`` wrote, by this version or an earlier one."""
        is_earlier = "margin" in values
        mates, space = values.get("mates"), values.get("common_space")
        decided_by, weights = values["decided_by"], tuple(values.get("weights", ()))
        return cls(
            values["balance"],
            weights if len(weights) > 1 else (),
            values["languages"],
            _DECIDED_BY_EARLIER.get(decided_by, decided_by),
            values.get("map"),
            MatesSummary(**mates) if mates and not is_earlier else None,
            CommonSpaceSummary(**space) if space else None,
            is_earlier,
        )


_DECIDED_BY_EARLIER: Mapping[str, DecidedBy] = {
    "concepts": "documents",
    "mates": "documents",
    "titles": "documents",
    "languages": "documents",
    "the migration": "default",
}
