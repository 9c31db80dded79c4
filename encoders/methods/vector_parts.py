"""Vectors that are made of parts: the concatenated unit vectors of several encoders.

In a stored vector all parts that know the text have equal weight. The cosine of two texts is the weighted mean of their
parts' cosines over the parts that know both: parts that don't know a text leave it to the others, on one scale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Self

import numpy as np

from encoders.document import BoolArray, EncoderSpec, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.phrases import counted


@dataclass(frozen=True)
class VectorParts:
    """Widths of the parts of a vector, and their weights, which sum to 1.

    Raises BadInput: weights are missing, negative, not finite, or all zero.
    """

    widths: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that each part has a weight, and scale the weights to the sum 1."""
        total = sum(self.weights)
        if len(self.weights) != len(self.widths):
            raise BadInput(
                f"the vectors have {counted(len(self.widths), 'part')}, one for each encoder; "
                f"give {counted(len(self.widths), 'weight')}, not {len(self.weights)}"
            )
        if not (math.isfinite(total) and total > 0 and min(self.weights) >= 0):
            raise BadInput(f"weights are numbers from 0 up, one of them above 0, and {self.weights} are not")
        object.__setattr__(self, "weights", tuple(weight / total for weight in self.weights))

    @classmethod
    def equal(cls, *widths: int) -> Self:
        """Parts with equal weights."""
        return cls(widths, (1.0,) * len(widths))

    @classmethod
    def of(cls, spec: EncoderSpec) -> Self:
        """The parts of an encoder's vectors, with equal weights."""
        return cls.equal(*(spec.widths or (spec.dim,)))

    @cached_property
    def slices(self) -> list[slice]:
        """Columns of each part."""
        return [slice(*ends) for ends in pairwise((0, *accumulate(self.widths)))]

    @cached_property
    def _roots(self) -> FloatArray:
        """(dim,) square root of each column's weight."""
        return np.repeat(np.sqrt(np.array(self.weights, dtype=np.float32)), self.widths)

    def unit(self, rows: FloatArray) -> FloatArray:
        """Scale each part to a unit vector, (n, dim); a zero part stays zero; a single part is returned as it is."""
        if len(self.widths) == 1:
            return rows
        return np.concatenate([unit_rows(rows[:, columns]) for columns in self.slices], axis=1)

    def weighed(self, rows: FloatArray) -> FloatArray:
        """Multiply each part by the root of its weight, (n, dim); a single part is returned as it is."""
        return rows if len(self.widths) == 1 else rows * self._roots

    def known(self, rows: FloatArray) -> BoolArray:
        """(n, parts) whether a part is not zero."""
        return np.stack([rows[:, columns].any(axis=1) for columns in self.slices], axis=1)

    def cosines(self, rows: FloatArray, queries: FloatArray) -> FloatArray:
        """(n, q) cosines of weighed unit parts over the parts that know both texts; 0 if no part does."""
        product: FloatArray = rows @ queries.T
        if len(self.widths) == 1:
            return product
        known_weights = self.known(rows) * np.array(self.weights, dtype=np.float32)
        common_weights = known_weights @ self.known(queries).T.astype(np.float32)
        return np.divide(product, common_weights, out=np.zeros_like(product), where=common_weights > _NONE)

    def plain_cosines(self, rows: FloatArray, queries: FloatArray) -> FloatArray:
        """(n, q) ``cosines`` of vectors as the encoders make them."""
        return self.cosines(self.weighed(self.unit(rows)), self.weighed(self.unit(queries)))

    def comparable(self, rows: FloatArray) -> BoolArray:
        """(n,) whether any part with a weight is not zero."""
        if len(self.widths) == 1:
            return np.asarray(rows.any(axis=1), dtype=np.bool_)
        return np.asarray((self.known(rows) & (np.array(self.weights) > 0)).any(axis=1), dtype=np.bool_)


_NONE = 1e-6


def shown_weights(weights: Sequence[float]) -> str:
    """Weights as a user types them; empty for one part."""
    return ",".join(f"{weight:.3g}" for weight in weights) if len(weights) > 1 else ""


def parsed_weights(text: str) -> tuple[float, ...]:
    """Weights from a user's text: ``0.3,0.7``. Raises BadInput: a weight is no finite number."""
    try:
        weights = tuple(float(weight) for weight in text.split(","))
    except ValueError:
        weights = ()
    if not weights or not all(map(math.isfinite, weights)):
        raise BadInput(f"weights are numbers with commas between, as in 0.3,0.7, and {text!r} is not")
    return weights
