"""The margin, against a plain transcription of LAWDR eq. 4."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.errors import BadInput
from query.calibration.margin import (
    FLOOR,
    NEIGHBOURS,
    best_of_languages,
    centring,
    check_balance,
    exponent,
    language_neighbourhoods,
    margin,
    neighbourhood,
)

COSINES = st.lists(st.floats(0.03125, 1.0, width=32), min_size=1, max_size=12)


@given(COSINES, st.integers(1, 15))
def test_a_neighbourhood_is_the_mean_of_the_k_largest(cosines: list[float], k: int) -> None:
    expected = np.mean(sorted(cosines, reverse=True)[:k])
    assert neighbourhood(np.array([cosines], dtype=np.float32), k)[0] == pytest.approx(expected, rel=1e-5)


def test_what_does_not_count_is_not_a_neighbour() -> None:
    rows = np.array([[0.5, -np.inf, 0.3], [-np.inf, -np.inf, -np.inf]], dtype=np.float32)
    assert neighbourhood(rows, 2).tolist() == pytest.approx([0.4, 0.0])
    assert neighbourhood(np.zeros((2, 0), dtype=np.float32), 4).tolist() == [0.0, 0.0]


@given(st.lists(st.sampled_from((0, 1, 2, 5, 5, 5)), min_size=1, max_size=8), st.integers(0, 999))
def test_languages_are_compared_at_once_as_one_after_the_other(lengths: list[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    ends = np.cumsum(lengths).tolist()
    languages = [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]
    cosines = (chance.integers(-5, 5, (3, ends[-1])) / 8).astype(np.float32)  # with ties
    cosines[chance.random(cosines.shape) < 0.2] = -np.inf
    means = language_neighbourhoods(cosines, languages)
    best = best_of_languages(cosines, languages)
    for span in languages:
        for query, row in enumerate(cosines[:, span]):
            if len(row):
                np.testing.assert_array_equal(
                    means[query, span], np.repeat(neighbourhood(row[None], NEIGHBOURS), len(row))
                )
            order = [column for column in np.argsort(-row, kind="stable")[:NEIGHBOURS] if np.isfinite(row[column])]
            assert np.flatnonzero(best[query, span]).tolist() == sorted(order)


@given(st.floats(-1, 1, width=32), st.floats(0.125, 1, width=32), st.floats(0.125, 1, width=32))
def test_at_beta_one_the_margin_is_the_papers(cosine: float, fwd: float, bwd: float) -> None:
    cosines, ahead, behind = (np.array([value], dtype=np.float32) for value in (cosine, fwd, bwd))
    assert margin(cosines, ahead, behind, 1.0)[0] == pytest.approx(cosine / ((fwd + bwd) / 2), rel=1e-4)
    assert margin(cosines, ahead, behind, 0.5)[0] == pytest.approx(cosine / ((fwd + bwd) / 2) ** 0.5, rel=1e-4)
    assert margin(cosines, ahead, behind, 0.0)[0] == np.float32(cosine)


@given(st.floats(-1, 1, width=32), st.floats(-1, 1, width=32), st.floats(-1, 1, width=32), st.floats(0, 1))
def test_a_margin_is_a_number_whatever_the_neighbourhoods(cosine: float, fwd: float, bwd: float, beta: float) -> None:
    cosines, ahead, behind = (np.array([value], dtype=np.float32) for value in (cosine, fwd, bwd))
    score = margin(cosines, ahead, behind, beta)[0]
    assert np.isfinite(score)
    assert abs(score) <= abs(cosine) / FLOOR + 1e-5


def test_the_dial_takes_out_the_languages_first_and_raises_the_margin_then() -> None:
    assert [centring(balance) for balance in (0, 0.25, 0.5, 0.75, 1)] == [0, 0.5, 1, 1, 1]
    assert [exponent(balance) for balance in (0, 0.25, 0.5, 0.75, 1)] == [0, 0, 0, 0.5, 1]


@pytest.mark.parametrize("balance", [2, -0.1, float("nan"), float("inf")])
def test_a_balance_outside_the_dial_is_refused(balance: float) -> None:
    with pytest.raises(BadInput, match="balance goes from 0"):
        check_balance(balance)
