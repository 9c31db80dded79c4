"""The largest of many scores."""

import numpy as np

from encoders.document import FloatArray, Rows

_SCORES_OF_A_COLUMN = 16
_FEW = 512
"""Scores that are faster sorted than looked through."""


def largest(scores: FloatArray, k: int) -> Rows:
    """Indices of the k largest scores, descending, equal scores by index."""
    if k >= len(scores) or len(scores) <= _FEW:
        return np.argsort(-scores, kind="stable")[:k]
    chosen = np.flatnonzero(scores >= low_threshold(scores, k))
    if len(chosen) > k:
        of_chosen = scores[chosen]
        threshold = np.partition(of_chosen, len(chosen) - k)[len(chosen) - k]
        above, equal = chosen[of_chosen > threshold], chosen[of_chosen == threshold]
        chosen = np.concatenate((above, equal[: k - len(above)]))  # of equal scores the first by index
        chosen.sort()
    return chosen[np.argsort(-scores[chosen], kind="stable")]


def low_threshold(scores: FloatArray, k: int) -> float:
    """The k-th largest of columns' maxima, for more than k scores: k scores reach it, and few more if k is small."""
    columns = max(k, len(scores) // _SCORES_OF_A_COLUMN)
    of_columns = scores[: len(scores) // columns * columns].reshape(-1, columns).max(axis=0)
    return float(np.partition(of_columns, columns - k)[columns - k])
