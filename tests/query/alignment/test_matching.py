"""One-to-one pairs by margin: tiles and candidate lists give what the whole matrix gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from query.alignment import matching
from query.alignment.matching import MARGINS, Margin, Pairs, align, match
from query.calibration.margin import FLOOR


def random_sides(n: int, m: int, dim: int = 24, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Two sides whose first rows are noisy copies of each other."""
    chance = np.random.default_rng(seed)
    x, y = (chance.standard_normal((size, dim)).astype(np.float32) for size in (n, m))
    shared = min(n, m) // 2
    y[:shared] = x[:shared] + 0.8 * y[:shared]
    return unit_rows(x), unit_rows(y[chance.permutation(m)])


def whole_matrix(x: FloatArray, y: FloatArray, k: int, margin: Margin) -> FloatArray:
    cosines = x @ y.T
    forward = np.sort(cosines, axis=1)[:, -k:].mean(axis=1)
    means = (forward[:, None] + np.sort(cosines, axis=0)[-k:].mean(axis=0)[None]) / np.float32(2)
    scores: FloatArray = {"ratio": cosines / np.maximum(means, FLOOR), "distance": cosines - means}.get(margin, cosines)
    return scores


def competitive(scores: FloatArray) -> dict[int, int]:
    """Pairs of a whole matrix: the best of all, then the best of what is left."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for place in np.argsort(-scores, axis=None, kind="stable").tolist():
        row, col = divmod(place, scores.shape[1])
        if row not in pairs and col not in taken:
            pairs[row] = col
            taken.add(col)
    return pairs


def as_dict(found: Pairs) -> dict[int, int]:
    return dict(zip(found.rows.tolist(), found.cols.tolist(), strict=True))


@settings(max_examples=30)
@given(
    n=st.integers(1, 90),
    m=st.integers(1, 90),
    k=st.integers(1, 12),
    margin=st.sampled_from(MARGINS),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_the_whole_matrix(n: int, m: int, k: int, margin: Margin, seed: int) -> None:
    x, y = random_sides(n, m, seed=seed)
    scores = whole_matrix(x, y, k, margin)
    found = align(x, y, k=k, margin=margin)
    assert as_dict(found) == competitive(scores)
    assert len(found.rows) == min(n, m)
    np.testing.assert_allclose(found.scores, scores[found.rows, found.cols], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.cosines, (x @ y.T)[found.rows, found.cols], atol=1e-5)
    assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize("margin", MARGINS)
def test_several_tiles_and_used_up_candidates_change_nothing(margin: Margin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_ROWS", 64)
    monkeypatch.setattr(matching, "_COLS", 96)
    monkeypatch.setattr(matching, "KEPT", 2)
    x, y = random_sides(500, 430)
    assert as_dict(align(x, y, margin=margin)) == competitive(whole_matrix(x, y, 4, margin))


def test_a_threshold_leaves_out_what_is_below_it_and_nothing_else() -> None:
    x, y = random_sides(300, 200)
    every = align(x, y)
    some = align(x, y, threshold=1.1)
    kept = every.scores >= 1.1
    assert 0 < kept.sum() < len(kept)
    assert as_dict(some) == dict(zip(every.rows[kept].tolist(), every.cols[kept].tolist(), strict=True))
    assert len(align(x, y, threshold=float("inf")).rows) == 0


def test_matching_leaves_without_a_pair_whose_candidates_are_taken_and_zeros_have_finite_scores() -> None:
    rows, cols = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    scores = np.array([0.9, 0.5, 0.8, 0.7], np.float32)
    assert as_dict(match(Pairs(rows, cols, scores, scores))) == {0: 0}
    assert as_dict(match(Pairs(rows[1:], cols[1:], scores[1:], scores[1:]))) == {1: 0, 0: 1}
    same = np.full((200, 4), 0.5, np.float32)
    assert np.isfinite(align(np.zeros((3, 4), np.float32), same).scores).all()


def test_what_cannot_be_aligned_is_said() -> None:
    x = unit_rows(np.eye(4, dtype=np.float32))
    with pytest.raises(BadInput, match="the threshold is no number"):
        align(x, x, threshold=float("nan"))
    with pytest.raises(BadInput, match="at least one neighbour"):
        align(x, x, k=0)
    with pytest.raises(BadInput, match="both sides need one encoder"):
        align(x, x[:, :3])
    broken = x.copy()
    broken[2, 1] = np.nan
    with pytest.raises(BadInput, match="the second side's vector 2 has a value that is no number"):
        align(x, broken)
