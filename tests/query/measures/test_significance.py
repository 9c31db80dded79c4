"""The paired tests, against plain enumeration and scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from encoders.errors import BadInput
from query.measures import significance

differences = st.lists(st.integers(-20, 20).map(lambda whole: whole / 20), min_size=1, max_size=8)


def enumerated(values: list[float]) -> float:
    observed = abs(sum(values))
    signs = list(product([1, -1], repeat=len(values)))
    extreme = [abs(sum(sign * value for sign, value in zip(some, values, strict=True))) for some in signs]
    return sum(value >= observed - 1e-9 for value in extreme) / len(signs)


@given(differences)
def test_few_topics_are_tested_exactly(values: list[float]) -> None:
    assert significance.randomisation_test(np.array(values)[:, None])[0] == pytest.approx(enumerated(values))


def test_many_topics_are_tested_by_drawing_the_same_signs() -> None:
    values = np.random.default_rng(5).normal(0.15, 1, size=(60, 3))
    ours = significance.randomisation_test(values)
    assert np.array_equal(significance.randomisation_test(values.copy()), ours)
    theirs = stats.permutation_test(
        (values,), lambda some, axis: np.mean(some, axis=axis), permutation_type="samples", n_resamples=20_000, rng=1
    )
    assert ours == pytest.approx(theirs.pvalue, abs=0.015)


def test_p_is_never_zero_and_meets_the_exact_one_at_the_border() -> None:
    assert significance.randomisation_test(np.full((200, 1), 0.5))[0] == pytest.approx(1 / 100_001)
    assert {significance.randomisation_test(np.zeros((count, 1)))[0] for count in (3, 200)} == {1.0}
    values = np.random.default_rng(2).normal(0.4, 1, size=significance.EXACT_TOPICS + 1)
    assert significance.randomisation_test(values[:, None])[0] == pytest.approx(enumerated(values.tolist()), abs=0.005)


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=30))
def test_the_t_test_is_scipys_wherever_differences_vary(values: list[float]) -> None:
    assert significance.t_test(np.array([0.3])) is None  # of one topic
    for equal, known in (([0.0] * 5, 1.0), ([0.1] * 5, 0.0), ([0.1, 0.3 - 0.2, 0.1], 0.0)):
        assert significance.t_test(np.array(equal)) == known
    array = np.array(values)
    p = significance.t_test(array)
    assert p is not None
    assert 0 <= p <= 1
    if array.std() > 1e-3:
        assert p == pytest.approx(stats.ttest_rel(array, np.zeros_like(array)).pvalue)


@pytest.mark.parametrize("by_chance", [0.05, 0.01])
@given(st.lists(st.integers(-20, 20).map(lambda whole: whole / 20), min_size=1, max_size=12))
def test_a_gain_is_sure_where_scipys_one_sided_test_says_so(by_chance: float, values: list[float]) -> None:
    """A single one is not, and equal ones are."""
    gains = np.array(values)
    if np.ptp(gains):
        p = float(stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue)
        assume(abs(p - by_chance) > 1e-9)
        assert significance.is_sure(gains, by_chance) == (p < by_chance)
    else:
        assert significance.is_sure(gains, by_chance) == (len(gains) > 1 and gains[0] > 0)


def test_a_topics_gains_are_one_observation_however_many_they_are() -> None:
    noise = np.tile([0.5, -0.4], 20)
    assert significance.means_by_topic(noise, ["b", "a"] * 20) == pytest.approx([-0.4, 0.5])
    assert not significance.is_sure(significance.means_by_topic(noise, range(40)))
    assert significance.is_sure(significance.means_by_topic(noise + 0.3, range(40)))
    often = np.repeat(noise[:10] + 0.3, 40), np.repeat(range(10), 40).tolist()
    assert significance.is_sure(often[0], 0.0125)
    assert not significance.is_sure(significance.means_by_topic(*often), 0.0125)


def test_all_comparisons_shown_together_are_corrected_together_by_holm() -> None:
    assert significance.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (significance.holm([0.6, 0.9]), significance.holm([])) == ([1.0, 1.0], [])
    dice = np.random.default_rng(9)
    a, *others = [{f"{qid}": {"AP": dice.random(), "P@10": dice.random()} for qid in range(8)} for _ in range(3)]
    raw = [one for run in others for one in significance.compare("a", a, "b", run, ["AP", "P@10"])]
    p_values = [one.p_randomisation for one in raw]
    assert [one.p_holm for one in significance.corrected(raw)] == significance.holm(p_values)
    with pytest.raises(BadInput, match="share no topic"):
        significance.compare("1", {"1": {"AP": 1.0}}, "2", {"2": {"AP": 1.0}}, ["AP"])
    with pytest.raises(BadInput, match="run 2 was not measured with P@10"):
        significance.compare("1", {"1": {"AP": 1.0, "P@10": 0.1}}, "2", {"1": {"AP": 1.0}}, ["P@10"])


def test_a_comparison_counts_wins_losses_and_ties_over_common_topics_that_have_a_value() -> None:
    a = {"1": {"AP": 0.5, "LPR": 1.0}, "2": {"AP": 0.5}, "3": {"AP": 0.5}, "only a": {"AP": 1.0}}
    b = {"1": {"AP": 0.7, "LPR": 0.0}, "2": {"AP": 0.4}, "3": {"AP": 0.5}}
    one, preference = significance.compare("1", a, "2", b, ["AP", "LPR"])
    assert (one.wins, one.losses, one.ties, one.left_out, one.exact) == (1, 1, 1, 1, True)
    assert one.baseline_mean == pytest.approx(0.5)
    assert one.difference == pytest.approx(0.1 / 3)
    assert one.effect == pytest.approx((0.1 / 3) / np.std([0.2, -0.1, 0.0], ddof=1))
    assert one.differences == pytest.approx({"1": 0.2, "2": -0.1, "3": 0.0})
    assert (preference.measure, preference.differences) == ("LPR", {"1": -1.0})
    with pytest.raises(BadInput, match="share no topic with LPR"):
        significance.compare("1", a, "2", {"1": {"AP": 1.0}, "2": {"AP": 1.0, "LPR": 1.0}}, ["LPR"])


def test_versions_of_one_topic_are_one_observation() -> None:
    """Three languages that agree are no three times stronger evidence."""
    values = {f"{qid}": value for qid, value in enumerate(np.random.default_rng(4).normal(0.05, 0.1, size=10))}

    def runs(*endings: str) -> list[dict[str, dict[str, float]]]:
        return [
            {f"{qid}{end}": {"AP": 0.5 + factor * value} for qid, value in values.items() for end in endings}
            for factor in (0, 1)
        ]

    a, b = runs(".de", ".fi", ".ja")
    (together,) = significance.compare("1", a, "2", b, ["AP"], topic=lambda qid: qid.rpartition(".")[0])
    (single,) = significance.compare("1", runs("")[0], "2", runs("")[1], ["AP"])
    assert together.observations == 10
    assert (together.p_randomisation, together.p_t) == pytest.approx((single.p_randomisation, single.p_t))
    assert together.wins + together.losses == 30
