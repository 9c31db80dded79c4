"""The summary of a stored calibration: how it ranks, what decided that, and the migration it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import (
    NO_MATES,
    NO_TITLES,
    CalibrationChoice,
    Mix,
    OwnLanguageShares,
    TriedChoice,
)


@dataclass(frozen=True)
class Separability:
    """How well a linear classifier tells the languages of documents apart.

    Attributes:
        accuracy: mean over languages of the share of documents whose language the classifier finds.
        languages: number of languages in the test: those with enough documents.
        threshold: accuracy below which nothing is balanced.
    """

    accuracy: float
    languages: int
    threshold: float

    @property
    def indistinguishable(self) -> bool:
        """Whether the languages can't be told apart."""
        return self.accuracy < self.threshold

    def as_json(self) -> dict[str, Any]:
        """The result as the database and ``--json`` have it."""
        return {"accuracy": self.accuracy, "languages": self.languages, "bar": self.threshold}


@dataclass(frozen=True)
class MatesSummary:
    """How many documents of a sample have mates in other languages.

    Attributes:
        share: share of the documents that have a mate that is confirmed; with two languages, that have a mate.
        confirmed: share of the mates checked by a third language that it confirms; none with two languages.
        margin: least margin of a mate.
    """

    share: float
    confirmed: float | None
    margin: float


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

    @property
    def before(self) -> str:
        """Id of the calibration that a migration replaced, ``none`` if it replaced none; empty without a migration."""
        return str(self.about.get("before", ""))

    @property
    def to(self) -> str:
        """Id of the model of queries after a migration; empty without a migration."""
        return str(self.about.get("to", ""))


@dataclass(frozen=True)
class SecondField:
    """The field for the new vectors of a migrated collection.

    Attributes:
        old_model: id of the model of the collection's own vectors.
    """

    generation: int
    old_model: str

    def as_json(self) -> dict[str, Any]:
        """The field as the database and ``--json`` have it."""
        return {"generation": self.generation, "beside": self.old_model}


@dataclass(frozen=True)
class Summary:
    """A calibration without its vectors.

    Attributes:
        neighbours: k of the margin's two means.
        languages: by language, the number of documents and of pseudo-queries in the statistics.
        few: number of documents of each language that has few.
        drift: by language, the share of pseudo-queries whose first ten changed.
        separability: how well languages are told apart; none if it was not measured.
        mates: how many documents have mates; none if mates were not mined.
        common_space: the common space; none without.
        second_field: the second field that the calibration is for; none for the collection's own vectors.
    """

    choice: CalibrationChoice
    neighbours: int
    languages: Mapping[str, Mapping[str, int]]
    decided_by: str
    tried: Sequence[TriedChoice] = ()
    few: Mapping[str, int] = field(default_factory=dict)
    drift: Mapping[str, float] = field(default_factory=dict)
    separability: Separability | None = None
    maps: MapSummary | None = None
    second_field: SecondField | None = None
    mates: MatesSummary | None = None
    common_space: CommonSpaceSummary | None = None

    @classmethod
    def of(cls, calibration: Calibration, decided_by: str, **others: Any) -> Summary:
        """Summarise a calibration's choice and languages; ``others`` are the remaining attributes."""
        return cls(
            calibration.choice,
            calibration.neighbours,
            {
                lang: {"documents": statistics.documents, "pseudo_queries": len(statistics.sources)}
                for lang, statistics in calibration.languages.items()
            },
            decided_by,
            **others,
        )

    @property
    def own_language(self) -> OwnLanguageShares | None:
        """Shares of the query's own language among the first hits; none if no choice was probed."""
        return OwnLanguageShares.of(self.tried, len(self.languages))

    def as_json(self) -> dict[str, Any]:
        """The summary as the database and ``--json`` have it."""
        values: dict[str, Any] = {
            "balance": self.choice.balance,
            "margin": self.choice.margin,
            "rank": self.choice.rank,
            "weights": self.choice.weights,
            "lift": self.choice.lift,
            "bar": self.choice.bar,
            "second_look": self.choice.second_look,
            "mix": self.choice.mix,
            "neighbours": self.neighbours,
            "languages": {lang: dict(counts) for lang, counts in self.languages.items()},
            "decided_by": self.decided_by,
        }
        if self.second_field:
            return {**values, "few": dict(self.few), "second_field": self.second_field.as_json()}
        values["probe"] = [tried.as_dict() for tried in self.tried]
        if self.separability:
            values["told_apart"] = self.separability.as_json()
        if self.mates:
            values["mates"] = asdict(self.mates)
        if self.common_space:
            values["common_space"] = asdict(self.common_space)
        if self.maps:
            about = {"unknown": list(self.maps.unknown), "stands_in": self.maps.stands_in}
            values["map"] = {**self.maps.about, **about}
        return {**values, "few": dict(self.few), "drift": dict(self.drift)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Summary:
        """Read what ``as_json`` wrote, by this version or an earlier one."""
        maps, told_apart = dict(values.get("map", {})), values.get("told_apart")
        second_field = values.get("second_field")
        return cls(
            _choice(values),
            values.get("neighbours", 0),
            values["languages"],
            values["decided_by"],
            [
                TriedChoice(_choice(row), row["value"], row["held_out"], row["own_language"], row["chosen"])
                for row in values.get("probe", ())
            ],
            values.get("few", {}),
            values.get("drift", {}),
            Separability(told_apart["accuracy"], told_apart["languages"], told_apart["bar"]) if told_apart else None,
            MapSummary(maps, maps.pop("unknown", ()), maps.pop("stands_in", False)) if "map" in values else None,
            SecondField(second_field["generation"], second_field["beside"]) if second_field else None,
            MatesSummary(**values["mates"]) if "mates" in values else None,
            CommonSpaceSummary(**values["common_space"]) if "common_space" in values else None,
        )


def _choice(values: Mapping[str, Any]) -> CalibrationChoice:
    weights = tuple(values.get("weights", ()))
    mates = {name: values.get(name, value) for name, value in NO_MATES.items()}
    mix = Mix(*values.get("mix", NO_TITLES))
    return CalibrationChoice(values["rank"], values["margin"], values["balance"], weights, **mates, mix=mix)
