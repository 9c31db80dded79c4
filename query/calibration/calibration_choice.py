"""How a collection is ranked, as its calibration decides it, and the result of probing a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from encoders.errors import BadInput
from query.calibration.margin import Margin, check

BAR = 0.5
"""Cosine from which a mate counts fully, if nothing decides."""


class Mix(NamedTuple):
    """Weights of the cosines of a document, its title, its opening and its best passage in the compared cosine.

    A document without a title passage is compared by the other cosines.
    """

    document: float
    title: float
    opening: float
    passage: float


USUAL_MIX = Mix(document=1, title=1, opening=1, passage=2)
"""The mix unless evidence decides another."""
NO_TITLES = Mix(document=1, title=0, opening=1, passage=1)
"""The mix of calibrations made before titles were passages. Calibrations with just this mix leave it out of their
header, so that old ids stay."""


@dataclass(frozen=True)
class CalibrationChoice:
    """How a collection is ranked, decided when it is calibrated and stored with the calibration.

    Attributes:
        rank: number of directions of the language subspace taken out; 0: the mean is taken out.
        balance: 0: nothing is balanced … 1: every language is equal.
        weights: weights of the parts of combined vectors; empty: equal weights, or a single part.
        lift: share of its best mate's lead that a document gains, 0 to 1; 0: mates don't count.
        bar: cosine from which a mate counts fully, by vectors without the languages' components.
        second_look: whether candidates near the query and its best hits are looked up, too.
        mix: weights of document, title, opening and best passage.

    Raises:
        BadInput: the balance or the lift is not between 0 and 1, there is no such margin, or the rank is negative.
    """

    rank: int = 0
    margin: Margin = "ratio"
    balance: float = 0.75
    weights: tuple[float, ...] = ()
    lift: float = 0.8
    bar: float = BAR
    second_look: bool = False
    mix: Mix = USUAL_MIX

    def __post_init__(self) -> None:
        """Check the values."""
        check(self.balance, self.margin)
        if self.rank < 0:
            raise BadInput(f"{self.rank} directions can't be taken out; 0 takes the mean out, 1 one direction")
        if not 0.0 <= self.lift <= 1.0:
            raise BadInput(f"mates lift by a share from 0 to 1, not {self.lift:g}")


DEFAULT = CalibrationChoice()
NO_MATES: Mapping[str, Any] = {"lift": 0.0, "bar": BAR, "second_look": False}
"""Settings of calibrations made before there were mates. Calibrations with just these leave them out of their header,
so that old ids stay."""


@dataclass(frozen=True)
class TriedChoice:
    """The result of probing a choice.

    Attributes:
        value: MAP on the half of the topics that decides; for ``titles``, the mean reciprocal rank of their own
            documents in their language.
        held_out: the same on the other half.
        own_language: share of the query's language among the first n hits that are not answers; n is the number of
            languages.
    """

    choice: CalibrationChoice
    value: float
    held_out: float
    own_language: float
    chosen: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The choice and its result as one flat mapping, for JSON."""
        return {**asdict(self.choice), **{key: value for key, value in asdict(self).items() if key != "choice"}}


@dataclass(frozen=True)
class OwnLanguageShares:
    """Shares of the query's own language among the first hits that are not answers, as a calibration was probed.

    Attributes:
        hits: number of first hits that count, one for each language.
        reached: share by the calibration's choice, 0 to 1.
        by_balance: share by balance, 0 to 1: of the choice, and of choices that differ from it in the balance alone.
    """

    hits: int
    reached: float
    by_balance: Mapping[float, float]

    @classmethod
    def of(cls, trials: Sequence[TriedChoice], languages: int) -> OwnLanguageShares | None:
        """The shares of a probe's trials; none if no choice was probed or there is only one language."""
        chosen = next((trial for trial in trials if trial.chosen), None)
        if chosen is None or languages < 2:
            return None
        shares = {trial.choice.balance: trial.own_language for trial in differing_in_balance(trials, chosen.choice)}
        return cls(languages, chosen.own_language, dict(sorted(shares.items())))

    @property
    def equal(self) -> float:
        """Share of a language if all languages had equal shares."""
        return 1 / self.hits

    def as_json(self) -> dict[str, Any]:
        """The shares as ``--json`` has them."""
        return {
            "hits": self.hits,
            "reached": self.reached,
            "equal": self.equal,
            "by_balance": {f"{balance:g}": share for balance, share in self.by_balance.items()},
        }


def differing_in_balance(trials: Sequence[TriedChoice], choice: CalibrationChoice) -> list[TriedChoice]:
    """The trials that differ from a choice in nothing but the balance."""
    return [trial for trial in trials if replace(trial.choice, balance=choice.balance) == choice]
