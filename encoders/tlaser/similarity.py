"""Similarity search: share of sentences whose nearest neighbour in another language is not their translation."""

from collections.abc import Mapping
from itertools import permutations

import numpy as np

from encoders.document import BoolArray, FloatArray


def search_error(queries: FloatArray, candidates: FloatArray) -> float:
    """Share of (sentences, dim) unit rows whose nearest candidate is not the candidate of the same row, by cosine."""
    return float(np.mean(np.argmax(queries @ candidates.T, axis=1) != np.arange(len(queries))))


def search_errors(vectors: Mapping[str, FloatArray], present: Mapping[str, BoolArray]) -> dict[tuple[str, str], float]:
    """Search error of each ordered pair of languages, on the sentences that both have; pairs without any are left out.

    ``vectors`` are aligned (sentences, dim) unit rows; ``present`` is (sentences,) bool, whether a language has it.
    """
    errors = {}
    for source, target in permutations(vectors, 2):
        shared = present[source] & present[target]
        if shared.any():
            errors[source, target] = search_error(vectors[source][shared], vectors[target][shared])
    return errors
