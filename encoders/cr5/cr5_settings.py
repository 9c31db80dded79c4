"""How Cr5 is trained; the defaults are the paper's (section 4.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Pairs = Literal["joint", "pairwise", "transitive", "transitive-published"]


@dataclass(frozen=True)
class WordLimits:
    """Minimum and maximum number of different words in a training document."""

    least: int = 50
    most: int = 1000


@dataclass(frozen=True)
class Cr5Settings:
    """How to train."""

    dimensions: int = 300
    ridge: float | None = None  # λ; None: chosen by cross-validation over concepts
    # ``joint`` uses every concept of two languages or more, ``transitive`` links languages by pivots alone;
    # ``pairwise`` is ``joint`` on two languages. Where two languages share a concept with a pivot, ``transitive`` gives
    # it to one of them, and ``transitive-published`` to none, as in the paper.
    pairs: Pairs = "joint"
    pivots: Sequence[str] = ()  # languages that transitive training links the others with
    vocabulary: int = 200_000  # maximum number of words in each language; the most frequent are taken
    least: int = 3  # minimum number of documents that have a word
    limits: WordLimits = field(default_factory=WordLimits)
    seed: int = 0

    @property
    def has_pivots(self) -> bool:
        """Whether languages meet at pivots alone."""
        return self.pairs in ("transitive", "transitive-published")
