"""Ranking options that a person can set."""

from __future__ import annotations

from dataclasses import dataclass

from query.calibration.margin import Margin


@dataclass(frozen=True)
class RankingOptions:
    """Ranking options of a person; options that are not set come from the calibration.

    Attributes:
        calibration: beginning of the calibration's id; ``none``: plain cosine; empty: the active calibration.
        balance: 0: nothing is balanced, and without ``passages`` documents are ranked as the encoder ranks them;
            1: every language is equal; none: the calibration's balance.
        margin: form of the margin; none: the calibration's form.
        passages: compare the head of the ranking by passages too; ignored without a calibration.
        hybrid: let the words that a query shares with documents change their order within a language.
        weights: weights of the parts of combined vectors; empty: the calibration's weights.
    """

    calibration: str = ""
    balance: float | None = None
    margin: Margin | None = None
    passages: bool = True
    hybrid: bool = False
    weights: tuple[float, ...] = ()
