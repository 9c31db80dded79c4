"""The largest of many scores."""

import numpy as np
import pytest

from encoders.top_scores import largest


@pytest.mark.parametrize("k", [1, 5, 60, 70])
def test_the_highest_cosines_are_those_of_a_stable_order(k: int) -> None:
    cosines = np.random.default_rng(0).integers(-5, 5, 60).astype(np.float32)
    cosines[::7] = -np.inf
    assert largest(cosines, k).tolist() == np.argsort(-cosines, kind="stable")[:k].tolist()
