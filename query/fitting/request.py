"""What a calibration is asked to do: by a person now, and by what the previous calibration was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice
from query.calibration.mapped_calibration import MappedCalibration
from query.calibration.margin import Margin
from query.calibration.table import StoredCalibration

if TYPE_CHECKING:
    from ir_measures import Qrel


@dataclass(frozen=True)
class JudgedTopics:
    """Topics with judgements that decide the choice; the queries' ids are the qrels' topic ids."""

    topics: Sequence[Document]
    qrels: Sequence[Qrel]


@dataclass(frozen=True)
class CalibrationRequest:
    """What a person asks of a new calibration.

    Attributes:
        choice: how to rank; none: it is decided.
        judged: topics that decide the choice.
        logged_queries: queries for the banks of pseudo-queries.
        maps: maps to rank with; none: the inherited maps stay.
        seed: seed of the random samples.

    Raises:
        BadInput: a choice is given together with topics that decide it, or a rank together with maps.
    """

    choice: CalibrationChoice | None = None
    judged: JudgedTopics | None = None
    logged_queries: Sequence[Document] = ()
    maps: SpaceMaps | Networks | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check that the values go together."""
        if self.choice and self.judged:
            raise BadInput("topics decide how to rank; leave balance, margin, rank, weights, lift and second look out")
        if self.choice and self.choice.rank and self.maps:
            raise BadInput("maps and a rank don't go together: maps are learnt from vectors without their mean")


def stated_choice(
    *,
    balance: float | None = None,
    margin: Margin | None = None,
    rank: int | None = None,
    weights: tuple[float, ...] = (),
    lift: float | None = None,
    second_look: bool | None = None,
) -> CalibrationChoice | None:
    """The choice of a person, with the default for values that are not stated; none if no value is stated.

    Raises:
        BadInput: as ``CalibrationChoice``.
    """
    values: dict[str, Any] = {
        "balance": balance,
        "margin": margin,
        "rank": rank,
        "weights": weights or None,
        "lift": lift,
        "second_look": second_look,
    }
    stated = {name: value for name, value in values.items() if value is not None}
    return replace(DEFAULT, **stated) if stated else None


@dataclass(frozen=True)
class InheritedInput:
    """A person's input to the previous calibration, which a new calibration takes over.

    Attributes:
        choice: how to rank, if a person or judgements decided it; none: it is decided anew.
        decided_by: what decided the choice.
        encoded_queries: logged queries, by language, (n, dim) unit rows.
    """

    choice: CalibrationChoice | None = None
    decided_by: str = ""
    encoded_queries: Mapping[str, FloatArray] = field(default_factory=dict)
    maps: SpaceMaps | Networks | None = None

    @classmethod
    def of(cls, stored: StoredCalibration, calibration: Calibration | None) -> InheritedInput:
        """The input to a calibration; if the calibration can't be read (none), only its choice."""
        encoded_queries = {
            lang: unit_rows(statistics.bank[[not doc_id for doc_id in statistics.sources]])
            for lang, statistics in (calibration.languages.items() if calibration else ())
            if "" in statistics.sources
        }
        maps = calibration.maps if isinstance(calibration, MappedCalibration) else None
        if stored.summary.decided_by not in _LASTING and not maps:
            return cls(encoded_queries=encoded_queries)
        return cls(stored.summary.choice, stored.summary.decided_by, encoded_queries, maps)


_LASTING = ("you", "judgements")
