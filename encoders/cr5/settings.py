"""How Cr5 is trained; the defaults are the paper's (section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Pairs = Literal["joint", "pairwise", "transitive"]


@dataclass(frozen=True)
class WordLimits:
    """Numbers of different words that a training document has.

    Attributes:
        least: at least.
        most: at most.
    """

    least: int = 50
    most: int = 1000


@dataclass(frozen=True)
class Cr5Settings:
    """How to train.

    Attributes:
        dimensions: r.
        ridge: λ; none: by cross-validation over concepts.
        pairs: ``joint`` uses every concept of two languages or more, ``transitive`` links languages by pivots alone;
            ``pairwise`` is ``joint`` on two languages.
        pivots: of transitive training.
        vocabulary: words a language at most, the most frequent.
        least: documents that a word must be in.
        limits: different words of a training document.
        seed: of eigenvectors and cross-validation.
    """

    dimensions: int = 300
    ridge: float | None = None
    pairs: Pairs = "joint"
    pivots: Sequence[str] = ()
    vocabulary: int = 200_000
    least: int = 3
    limits: WordLimits = field(default_factory=WordLimits)
    seed: int = 0
