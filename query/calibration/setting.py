"""One way to rank with a calibration, and what a probe of it gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from encoders.errors import BadInput
from query.calibration.margin import Margin, check


@dataclass(frozen=True)
class Setting:
    """One way to rank.

    Attributes:
        rank: directions of the language subspace taken out; 0: the mean.
        margin: form of the margin.
        balance: of the dial.
        weights: of the parts of combined vectors; empty: equal, or there is one part.

    Raises:
        BadInput: the balance is not between 0 and 1, there is no such margin, or the rank is negative.
    """

    rank: int = 0
    margin: Margin = "ratio"
    balance: float = 0.75
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """See that it is one."""
        check(self.balance, self.margin)
        if self.rank < 0:
            raise BadInput(f"{self.rank} directions can't be taken out; 0 takes the mean out, 1 one direction")


DEFAULT = Setting()


@dataclass(frozen=True)
class TriedSetting:
    """What one setting gave.

    Attributes:
        setting: which.
        value: MAP, or of ``titles`` the mean reciprocal rank of their own documents in their language,
            on the half of the topics that decides.
        held_out: the same on the other half.
        own_language: share of the first hits beside the answers, one a language, that are in the query's own.
        chosen: whether it is the one.
    """

    setting: Setting
    value: float
    held_out: float
    own_language: float
    chosen: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Flat, as JSON carries it."""
        return {**asdict(self.setting), **{key: value for key, value in asdict(self).items() if key != "setting"}}
