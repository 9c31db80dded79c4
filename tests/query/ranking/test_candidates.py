"""Candidates: the best passage of each document."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from query.ranking.candidates import combined_groups


@given(
    st.sampled_from([np.maximum, np.add]),
    st.lists(st.sampled_from((1, 2, 3, 60, 70)), max_size=20),
    st.integers(1, 4),
    st.integers(0, 2**31),
)
def test_groups_are_combined_as_numpy_does(combine: np.ufunc, lengths: list[int], columns: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((sum(lengths), columns)).astype(np.float32)
    starts = np.cumsum([0, *lengths[:-1]], dtype=np.intp)[: len(lengths)]
    if len(starts):
        starts = np.append(starts, starts[-1])  # a document whose only passage is its title
    expected = combine.reduceat(values, starts, axis=0) if lengths else values
    np.testing.assert_allclose(combined_groups(combine, values, starts), expected, rtol=1e-4, atol=1e-5)
