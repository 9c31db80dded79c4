"""How a search ranks: the options that a person sets, and the choice that they and the calibration make."""

from __future__ import annotations

from dataclasses import dataclass, replace

from encoders.errors import BadInput
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import BAR, USUAL_MIX, Mix
from query.calibration.margin import Margin, check


@dataclass(frozen=True)
class SearchChoice:
    """How a search ranks.

    Attributes:
        balance: 0: nothing is balanced … 1: every language is equal.
        passages: compare the head of the ranking by passages too.
        hybrid: let the words that a query shares with documents change their order within a language.
        lift, bar, second_look, mix: as in ``CalibrationChoice``.

    Raises:
        BadInput: the balance is not between 0 and 1, or there is no such margin.
    """

    balance: float
    margin: Margin
    passages: bool = True
    hybrid: bool = False
    lift: float = 0.0
    bar: float = BAR
    second_look: bool = False
    mix: Mix = USUAL_MIX

    def __post_init__(self) -> None:
        """Check the values."""
        check(self.balance, self.margin)

    @classmethod
    def of(cls, calibration: Calibration) -> SearchChoice:
        """The calibration's own choice."""
        names = ("balance", "margin", "lift", "bar", "second_look", "mix")
        return cls(**{name: getattr(calibration, name) for name in names})


PLAIN = SearchChoice(0.0, "absolute", passages=False)
"""Plain cosine: how a collection without a calibration is ranked."""

MATES = SearchChoice(0.5, "absolute", passages=False)
"""Cosine of documents without the whole components of their languages: how documents are compared with a document."""


@dataclass(frozen=True)
class RankingOptions:
    """Ranking options of a person; options that are not set come from the calibration.

    Attributes:
        calibration: beginning of the calibration's id; ``none``: plain cosine; empty: the active calibration.
        balance: 0: nothing is balanced, and without ``passages`` and ``mates`` documents are ranked as the encoder
            ranks them; 1: every language is equal; none: the calibration's balance.
        margin: form of the margin; none: the calibration's form.
        passages: compare the head of the ranking by passages too; ignored without a calibration.
        hybrid: let the words that a query shares with documents change their order within a language.
        weights: weights of the parts of combined vectors; empty: the calibration's weights.
        mates: let documents about the same thing lift each other, and the best hits their neighbours, as the
            calibration decides.
        rerank: folder of a reranker, or its name in the cache, that orders the best hits; empty: none does.
    """

    calibration: str = ""
    balance: float | None = None
    margin: Margin | None = None
    passages: bool = True
    hybrid: bool = False
    weights: tuple[float, ...] = ()
    mates: bool = True
    rerank: str = ""


def choose(collection: str, calibration: Calibration | None, options: RankingOptions) -> SearchChoice:
    """How to rank a collection: by its calibration, except where the options say otherwise.

    Raises:
        BadInput: the balance is not between 0 and 1, or the options need a calibration and there is none.
    """
    if calibration is None:
        if options.balance is not None or options.margin is not None or options.weights:
            raise BadInput(
                f"balance, margin and weights need a calibration, and {collection} is searched without; "
                f"make one: dragoman calibrate -c {collection}"
            )
        return replace(PLAIN, hybrid=options.hybrid)
    own = SearchChoice.of(calibration)
    choice = replace(
        own,
        balance=own.balance if options.balance is None else options.balance,
        margin=options.margin or own.margin,
        passages=options.passages,
        hybrid=options.hybrid,
    )
    return choice if options.mates else replace(choice, lift=0.0, second_look=False)
