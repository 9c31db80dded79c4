"""A setting to rank with, and the result of probing it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from encoders.errors import BadInput
from query.calibration.margin import Margin, check


@dataclass(frozen=True)
class Setting:
    """How to rank with a calibration.

    Attributes:
        rank: number of directions of the language subspace taken out; 0: the mean is taken out.
        balance: 0: nothing is balanced … 1: every language is equal.
        weights: weights of the parts of combined vectors; empty: equal weights, or a single part.

    Raises:
        BadInput: the balance is not between 0 and 1, there is no such margin, or the rank is negative.
    """

    rank: int = 0
    margin: Margin = "ratio"
    balance: float = 0.75
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the values."""
        check(self.balance, self.margin)
        if self.rank < 0:
            raise BadInput(f"{self.rank} directions can't be taken out; 0 takes the mean out, 1 one direction")


DEFAULT = Setting()


@dataclass(frozen=True)
class TriedSetting:
    """The result of probing a setting.

    Attributes:
        value: MAP on the half of the topics that decides; for ``titles``, the mean reciprocal rank of their own
            documents in their language.
        held_out: the same on the other half.
        own_language: share of the first hits without the answers, as many as languages, in the query's language.
    """

    setting: Setting
    value: float
    held_out: float
    own_language: float
    chosen: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The setting and its result as one flat mapping, for JSON."""
        return {**asdict(self.setting), **{key: value for key, value in asdict(self).items() if key != "setting"}}
