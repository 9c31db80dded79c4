"""How a person wants documents ranked."""

from dataclasses import dataclass, replace

from encoders.errors import BadInput
from query.calibration.calibration import NONE, Calibration
from query.calibration.margin import check_balance


@dataclass(frozen=True)
class RankingOptions:
    """How to rank.

    Attributes:
        calibration: beginning of the calibration's id; ``none``: plain cosine; empty: the active calibration.
        balance: 0: nothing is balanced … 1: every language is equal; none: the calibration's balance.
        hybrid: let the words that a query shares with documents change their order within a language.
        rerank: folder of a reranker, or its name in the cache, that orders the best hits; empty: none does.

    Raises:
        BadInput: the balance is not between 0 and 1, or is stated although no calibration ranks.
    """

    calibration: str = ""
    balance: float | None = None
    hybrid: bool = False
    rerank: str = ""

    def __post_init__(self) -> None:
        if self.balance is not None:
            check_balance(self.balance)
            if self.calibration == NONE:
                raise BadInput("plain cosine has no balance; leave the balance out, or the calibration none")

    def of(self, collection: str, calibration: Calibration | None) -> "RankingOptions":
        """The same options with the balance that a collection is ranked with; none by plain cosine.

        Raises BadInput: a balance is stated, and the collection has no calibration.
        """
        if calibration is not None and self.calibration != NONE:
            return self if self.balance is not None else replace(self, balance=calibration.balance)
        if self.balance is not None:
            raise BadInput(
                f"a balance needs a calibration, and {collection} is searched without; "
                f"make one: dragoman calibrate -c {collection}"
            )
        return self
