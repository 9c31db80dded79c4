"""Vectors that are made of parts: the unit vectors of several encoders, one after the other.

Stored, all parts that know a text have equal weight. To compare vectors, each part is made a unit vector again and
weighed: the cosine of two texts is the weighted mean of their parts' cosines, over the parts that know both. So a text
that one part knows nothing of is compared by the others, on the same scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Self

import numpy as np

from encoders.document import BoolArray, EncoderSpec, FloatArray, unit_rows
from encoders.errors import BadInput


@dataclass(frozen=True)
class VectorParts:
    """Where a vector's parts are, and how much each counts.

    Attributes:
        widths: of the parts, in order.
        weights: of the parts, 1 in all.

    Raises:
        BadInput: weights are missing, negative, not finite, or all zero.
    """

    widths: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """See that each part has a weight, and make them 1 in all."""
        total = sum(self.weights)
        if len(self.weights) != len(self.widths):
            raise BadInput(f"the vectors have {len(self.widths)} parts, and {len(self.weights)} weights are given")
        if not (math.isfinite(total) and total > 0 and min(self.weights) >= 0):
            raise BadInput(f"weights are numbers from 0 up, one of them above 0, and {self.weights} are not")
        object.__setattr__(self, "weights", tuple(weight / total for weight in self.weights))

    @classmethod
    def equal(cls, *widths: int) -> Self:
        """Parts that count the same."""
        return cls(widths, (1.0,) * len(widths))

    @classmethod
    def of(cls, spec: EncoderSpec) -> Self:
        """The parts of an encoder's vectors, which count the same."""
        return cls.equal(*(spec.widths or (spec.dim,)))

    @cached_property
    def slices(self) -> list[slice]:
        """Columns of each part."""
        return [slice(*ends) for ends in pairwise((0, *accumulate(self.widths)))]

    @cached_property
    def _roots(self) -> FloatArray:
        """(dim,) the square root of each column's weight."""
        return np.repeat(np.sqrt(np.array(self.weights, dtype=np.float32)), self.widths)

    def unit(self, rows: FloatArray) -> FloatArray:
        """(n, dim) each part a unit vector, or zero where it is; the same object where there is one part."""
        if len(self.widths) == 1:
            return rows
        return np.concatenate([unit_rows(rows[:, columns]) for columns in self.slices], axis=1)

    def weighed(self, rows: FloatArray) -> FloatArray:
        """(n, dim) each part times the root of its weight; the same object where there is one part."""
        return rows if len(self.widths) == 1 else rows * self._roots

    def known(self, rows: FloatArray) -> BoolArray:
        """(n, parts) which parts are not zero."""
        return np.stack([rows[:, columns].any(axis=1) for columns in self.slices], axis=1)

    def cosines(self, rows: FloatArray, queries: FloatArray) -> FloatArray:
        """(n, q) cosines of weighed unit parts, by the parts that both know; 0 where there is none."""
        product: FloatArray = rows @ queries.T
        if len(self.widths) == 1:
            return product
        counting = self.known(rows) * np.array(self.weights, dtype=np.float32)
        shared = counting @ self.known(queries).T.astype(np.float32)
        result: FloatArray = np.divide(product, shared, out=np.zeros_like(product), where=shared > _NONE)
        return result

    def plain_cosines(self, rows: FloatArray, queries: FloatArray) -> FloatArray:
        """(n, q) the same of unit vectors as encoders make them."""
        return self.cosines(self.weighed(self.unit(rows)), self.weighed(self.unit(queries)))

    def counting(self, rows: FloatArray) -> BoolArray:
        """(n,) whether a part that counts is not zero."""
        if len(self.widths) == 1:
            return np.asarray(rows.any(axis=1), dtype=np.bool_)
        return np.asarray((self.known(rows) & (np.array(self.weights) > 0)).any(axis=1), dtype=np.bool_)


_NONE = 1e-6


def weightings(parts: int) -> list[tuple[float, ...]]:
    """Weights to try: each part from next to nothing to nearly all, the others equally among each other."""
    if parts == 1:
        return [(1.0,)]
    tried = [
        tuple(weight if other == part else round((1 - weight) / (parts - 1), 3) for other in range(parts))
        for part in range(parts)
        for weight in _SHARES
    ]
    return list(dict.fromkeys(tried))


_SHARES = (0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9)


def shown_weights(weights: Sequence[float]) -> str:
    """Weights for people, as they are typed; nothing for those of one part."""
    return ",".join(f"{weight:.3g}" for weight in weights) if len(weights) > 1 else ""


def parsed_weights(text: str) -> tuple[float, ...]:
    """Weights as they are typed: ``0.3,0.7``.

    Raises:
        BadInput: one is no number.
    """
    try:
        return tuple(float(one) for one in text.split(","))
    except ValueError as error:
        raise BadInput(f"weights are numbers with commas between, as in 0.3,0.7, and {text!r} is not") from error
