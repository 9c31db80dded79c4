"""What a calibration is asked to do, by a person now or when the previous calibration was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.maps.space_maps import SpaceMaps
from query.calibration.calibration import Calibration
from query.calibration.calibration_table import StoredCalibration
from query.calibration.margin import check_balance
from query.trec_files.qrels import Qrel


@dataclass(frozen=True)
class JudgedTopics:
    """Topics with judgements that decide how to rank; the queries' ids are the qrels' topic ids."""

    topics: Sequence[Document]
    qrels: Sequence[Qrel]


@dataclass(frozen=True)
class CalibrationRequest:
    """What is asked of a calibration.

    Raises BadInput: the balance is not from 0 to 1, or topics decide it, too; the seed is below 0.
    """

    balance: float | None = None  # balance of searches that state none; none: ¾, or what judgements decide
    weights: tuple[float, ...] = ()  # weights of the encoders that the collection combines; empty: equal weights
    judged: JudgedTopics | None = None  # topics that decide space, mates and balance
    logged_queries: Sequence[Document] = ()  # queries for the banks of pseudo-queries
    maps: SpaceMaps | None = None  # maps to rank with; none: none
    seed: int = 0  # seed of the random samples
    encoded_queries: Mapping[str, FloatArray] = field(default_factory=dict)  # by language, (n, dim) unit rows
    taken_over: bool = False  # the balance is the previous calibration's, decided by a person or judgements
    # the previous calibration, if judgements decided it and its balance is taken over: mates count as in it, and there
    # is a common space only if it has one
    judged_before: Calibration | None = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInput(f"seed is {self.seed}; give 0 or more")
        if self.balance is not None:
            check_balance(self.balance)
            if self.judged:
                raise BadInput("the topics decide the balance; leave the balance out, or the topics")

    def after(self, stored: StoredCalibration, previous: Calibration | None) -> Self:
        """The request with the previous calibration's input; if that is unreadable (none), its balance and weights."""
        summary = stored.summary
        by_a_person, judged = summary.decided_by == "you", summary.decided_by == "judgements"
        taken_over = (by_a_person or judged) and self.balance is None and not self.judged
        weights = by_a_person or (judged and not summary.is_earlier)  # an earlier version's judgements decided them
        return replace(
            self,
            balance=summary.balance if taken_over else self.balance,
            weights=self.weights or (summary.weights if weights else ()),
            maps=self.maps or (previous.space.maps_of_documents if previous else None),
            encoded_queries={
                lang: unit_rows(statistics.bank[[not doc_id for doc_id in statistics.sources]])
                for lang, statistics in (previous.languages.items() if previous else ())
                if "" in statistics.sources
            },
            taken_over=taken_over,
            judged_before=previous if judged and taken_over else None,
        )
