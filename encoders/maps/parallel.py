"""Documents about the same concepts in several languages, and their split by concept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.maps.ridge_path import AlignedMoments
from encoders.phrases import counted

FEWEST = 15
"""Minimum concepts in all languages: validation and test then have three each."""
_Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Parallel:
    """Documents about the same concepts in several languages."""

    concepts: Sequence[str]
    rows: Mapping[str, FloatArray]  # (n, dim) float32 vectors by language; a concept has the same row in each

    def only(self, places: _Places) -> "Parallel":
        """The documents of the concepts at these places."""
        return Parallel(
            [self.concepts[place] for place in places], {lang: rows[places] for lang, rows in self.rows.items()}
        )

    def aligned(self) -> AlignedMoments:
        """Moments of all rows."""
        moments = AlignedMoments({lang: rows.shape[1] for lang, rows in self.rows.items()})
        moments.add(dict(self.rows))
        return moments


@dataclass(frozen=True)
class ConceptSplit:
    """Training, validation and test, by concept: three fifths, one fifth, one fifth."""

    training: Parallel
    validation: Parallel
    test: Parallel

    @classmethod
    def of(cls, parallel: Parallel, seed: int) -> Self:
        """Draw a random split. Raises BadInput: there are too few concepts."""
        count = len(parallel.concepts)
        if count < FEWEST:
            raise BadInput(
                f"{counted(count, 'concept is', 'concepts are')} in all of {', '.join(parallel.rows)}, and {FEWEST} "
                "are needed to learn and to test; leave languages out with --languages, or give more documents"
            )
        order = np.random.default_rng(seed).permutation(count)
        first, second = int(0.6 * count), int(0.8 * count)
        return cls(*(parallel.only(part) for part in (order[:first], order[first:second], order[second:])))

    def shortened(self, pairs: int) -> "ConceptSplit":
        """The same split with the first ``pairs`` training concepts only."""
        return ConceptSplit(self.training.only(np.arange(pairs)), self.validation, self.test)
