"""What a person may say of the ranking."""

from __future__ import annotations

from dataclasses import dataclass

from query.calibration.margin import Margin


@dataclass(frozen=True)
class RankingOptions:
    """What a person said of the ranking; the rest is as the calibration has it.

    Attributes:
        calibration: beginning of an id; ``none``: plain cosine; empty: the active one.
        balance: 0: nothing is balanced, and with ``passages`` off too that is how the encoder ranks; 1: every language
            is equal; none: the calibration's.
        margin: its form; none: the calibration's.
        passages: compare the head of the ranking by passages too; without a calibration they are not.
        hybrid: let the words that a query shares with documents change their order within a language.
        weights: of the parts of combined vectors; empty: the calibration's.
    """

    calibration: str = ""
    balance: float | None = None
    margin: Margin | None = None
    passages: bool = True
    hybrid: bool = False
    weights: tuple[float, ...] = ()
