"""The nearest words of a word."""

import numpy as np
import pytest

from encoders.cr5.neighbours import highest


@pytest.mark.parametrize("k", [1, 5, 60, 70])
def test_the_highest_cosines_are_those_of_a_stable_order(k: int) -> None:
    cosines = np.random.default_rng(0).integers(-5, 5, 60).astype(np.float32)
    cosines[::7] = -np.inf
    assert highest(cosines, k) == np.argsort(-cosines, kind="stable")[:k].tolist()
