"""The summary of a stored calibration: how it ranks, what decided that, and the migration it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from query.calibration.calibration import Calibration

DecidedBy = Literal["judgements", "documents", "you", "default"]
"""What decided how a calibration ranks: judged topics, the collection's own documents, a person, or nothing."""


@dataclass(frozen=True)
class MatesSummary:
    """Whether mates count, and by what that was decided.

    Attributes:
        count: whether they count.
        share: share of the sampled documents that have a confirmed mate; with two languages, that have a mate.
        confirmed: share of the mates checked by a third language that it confirms; none with two languages.
        queries: number of held-out queries that decided; 0: there were too few, or mates were unsure.
        without, with_mates: MAP of these queries, ranked without and with mates.
    """

    count: bool
    share: float
    confirmed: float | None
    queries: int = 0
    without: float = 0.0
    with_mates: float = 0.0


@dataclass(frozen=True)
class CommonSpaceSummary:
    """The common space that a calibration ranks with.

    Attributes:
        subjects: number of subjects that its maps were learnt from.
        before, after: mean reciprocal rank of the mates of pseudo-queries that taught nothing, without and with maps.
    """

    subjects: int
    ridge: float
    before: float
    after: float


@dataclass(frozen=True)
class MapSummary:
    """The maps that a calibration ranks with.

    Attributes:
        about: the maps' own description: the method and more.
        unknown: languages of documents for which the maps were not learnt.
        stands_in: whether the mean of the languages' maps serves the unknown languages.
    """

    about: Mapping[str, Any]
    unknown: Sequence[str] = ()
    stands_in: bool = False

    @property
    def method(self) -> str:
        """How the maps were learnt."""
        return str(self.about.get("method", ""))


@dataclass(frozen=True)
class Summary:
    """A calibration without its vectors.

    Attributes:
        weights: weights of the parts of combined vectors; empty for one part.
        languages: by language, the number of documents and of pseudo-queries in the statistics.
        few: number of documents of each language that has few.
        drift: by language, the share of pseudo-queries whose first ten changed.
        maps: the maps that it ranks with; none without.
        mates: whether mates count; none if a map or a person left nothing to decide.
        common_space: the common space; none without.
        is_earlier: whether an earlier version made the calibration, with settings that no longer exist.
    """

    balance: float
    weights: tuple[float, ...]
    languages: Mapping[str, Mapping[str, int]]
    decided_by: DecidedBy
    few: Mapping[str, int] = field(default_factory=dict)
    drift: Mapping[str, float] = field(default_factory=dict)
    maps: MapSummary | None = None
    mates: MatesSummary | None = None
    common_space: CommonSpaceSummary | None = None
    is_earlier: bool = False

    @property
    def migrated_from(self) -> str:
        """Id of the calibration that a migration replaced, ``none`` if it replaced none; empty without a migration."""
        return str(self.maps.about.get("before", "")) if self.maps else ""

    @property
    def migrated_to(self) -> str:
        """Id of the model of queries after a migration; empty without a migration."""
        return str(self.maps.about.get("to", "")) if self.maps else ""

    @classmethod
    def of(cls, calibration: Calibration, decided_by: DecidedBy, **others: Any) -> Summary:
        """Summarise a calibration's settings and languages; ``others`` are the remaining attributes."""
        weights = calibration.vector_parts.weights
        languages = {
            lang: {"documents": statistics.documents, "pseudo_queries": len(statistics.sources)}
            for lang, statistics in calibration.languages.items()
        }
        return cls(calibration.balance, weights if len(weights) > 1 else (), languages, decided_by, **others)

    def as_json(self) -> dict[str, Any]:
        """The summary as the database and ``--json`` have it."""
        values = asdict(self)
        maps, _ = values.pop("maps"), values.pop("is_earlier")
        return {**values, "weights": list(self.weights), "map": maps and {**maps.pop("about"), **maps}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """Read what ``as_json`` wrote, by this version or an earlier one."""
        is_earlier = "margin" in values
        maps, mates, space = (values.get(name) for name in ("map", "mates", "common_space"))
        about = dict(maps or {})
        unknown, stands_in = about.pop("unknown", ()), about.pop("stands_in", False)
        decided_by, weights = values["decided_by"], tuple(values.get("weights", ()))
        return cls(
            values["balance"],
            weights if len(weights) > 1 else (),
            values["languages"],
            _DECIDED_BY_EARLIER.get(decided_by, decided_by),
            values.get("few", {}),
            values.get("drift", {}),
            MapSummary(about, unknown, stands_in) if maps else None,
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
