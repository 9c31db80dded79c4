"""What a calibration is asked to do: by a person now, and by what the previous calibration was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.maps.networks import Networks
from encoders.maps.space import SpaceMaps
from query.calibration.calibration import Calibration
from query.calibration.margin import check_balance
from query.calibration.summary import DecidedBy
from query.calibration.table import StoredCalibration

if TYPE_CHECKING:
    from ir_measures import Qrel


@dataclass(frozen=True)
class JudgedTopics:
    """Topics with judgements that decide how to rank; the queries' ids are the qrels' topic ids."""

    topics: Sequence[Document]
    qrels: Sequence[Qrel]


@dataclass(frozen=True)
class CalibrationRequest:
    """What a person asks of a new calibration.

    Attributes:
        balance: balance of searches that state none; none: ¾, or what judgements decide.
        weights: weights of the encoders that the collection combines; empty: equal weights.
        judged: topics that decide space, mates and balance.
        logged_queries: queries for the banks of pseudo-queries.
        maps: maps to rank with; none: the inherited maps stay.
        seed: seed of the random samples.

    Raises:
        BadInput: the balance is not between 0 and 1, or is given together with topics that decide it.
    """

    balance: float | None = None
    weights: tuple[float, ...] = ()
    judged: JudgedTopics | None = None
    logged_queries: Sequence[Document] = ()
    maps: SpaceMaps | Networks | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check that the values go together."""
        if self.balance is not None:
            check_balance(self.balance)
            if self.judged:
                raise BadInput("the topics decide the balance; leave the balance out, or the topics")


@dataclass(frozen=True)
class InheritedInput:
    """A person's input to the previous calibration, which a new calibration takes over.

    Attributes:
        balance: the balance, if a person or judgements decided it.
        weights: weights of combined encoders.
        decided_by: what decided; by judgements, mates count as before, and there is a space only if there was one.
        mates, has_space: what judgements decided.
        encoded_queries: logged queries, by language, (n, dim) unit rows.
        maps: maps that the previous calibration ranked with.
    """

    balance: float | None = None
    weights: tuple[float, ...] = ()
    decided_by: DecidedBy = "default"
    mates: bool = False
    has_space: bool = False
    encoded_queries: Mapping[str, FloatArray] = field(default_factory=dict)
    maps: SpaceMaps | Networks | None = None

    @classmethod
    def of(cls, stored: StoredCalibration, calibration: Calibration | None) -> InheritedInput:
        """The input to a calibration; if the calibration can't be read (none), only its balance and weights."""
        summary = stored.summary
        stated = summary.decided_by == "you" or not summary.is_earlier  # an earlier version tried weights
        lasting = summary.decided_by in ("you", "judgements")
        return cls(
            summary.balance if lasting else None,
            summary.weights if stated else (),
            ("you" if calibration is None else summary.decided_by) if lasting else "default",
            calibration is not None and calibration.mates,
            summary.common_space is not None,
            {
                lang: unit_rows(statistics.bank[[not doc_id for doc_id in statistics.sources]])
                for lang, statistics in (calibration.languages.items() if calibration else ())
                if "" in statistics.sources
            },
            calibration.space.maps_of_documents if calibration else None,
        )
