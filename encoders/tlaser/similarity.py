"""Similarity search: how often a sentence's nearest in another language is not its translation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
import numpy.typing as npt

from encoders.document import FloatArray

BoolArray = npt.NDArray[np.bool_]


def search_error(queries: FloatArray, candidates: FloatArray) -> float:
    """Share of queries whose nearest candidate by cosine is not the one of the same row.

    Args:
        queries: (sentences, dim) unit rows.
        candidates: (sentences, dim) unit rows, their translations in the same order.
    """
    return float(np.mean(np.argmax(queries @ candidates.T, axis=1) != np.arange(len(queries))))


def search_errors(vectors: Mapping[str, FloatArray], there: Mapping[str, BoolArray]) -> dict[tuple[str, str], float]:
    """The error of each pair of languages both ways, on the sentences that both have; pairs without any are left out.

    Args:
        vectors: (sentences, dim) unit rows by language, the same row the same sentence.
        there: (sentences,) whether a language has it.
    """
    errors = {}
    for one, other in permutations(vectors, 2):
        both = there[one] & there[other]
        if both.any():
            errors[one, other] = search_error(vectors[one][both], vectors[other][both])
    return errors
