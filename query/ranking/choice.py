"""How to rank with a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from query.calibration.calibration import Calibration
from query.calibration.margin import Margin, check


@dataclass(frozen=True)
class Choice:
    """How to rank with a calibration.

    Attributes:
        balance: 0: nothing is balanced … 1: every language is equal.
        margin: form of the margin.
        passages: compare the head of the ranking by passages too.
        hybrid: let the words that a query shares with documents change their order within a language.

    Raises:
        BadInput: the balance is not between 0 and 1, or there is no such margin.
    """

    balance: float
    margin: Margin
    passages: bool = True
    hybrid: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        check(self.balance, self.margin)

    @classmethod
    def of(cls, calibration: Calibration) -> Choice:
        """The calibration's balance and margin."""
        return cls(calibration.balance, calibration.margin)


PLAIN = Choice(0.0, "absolute", passages=False)
"""Plain cosine: how a collection without a calibration is ranked."""
