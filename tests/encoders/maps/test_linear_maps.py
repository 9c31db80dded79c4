"""LCA and LCC against a plain numpy transcription of the paper's formulas, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.maps.lca import LCA
from encoders.maps.lcc import LCC, PUBLISHED_RIDGES, _leading_axes
from encoders.maps.mate_scores import mates
from encoders.maps.ridge_path import AlignedMoments


def _rows(n: int, dim: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def _centred(rows: FloatArray) -> np.ndarray:
    wide = rows.astype(np.float64)
    return np.asarray(wide - wide.mean(axis=0))


@pytest.mark.parametrize(("n", "dim_x", "dim_y"), [(60, 8, 8), (60, 8, 5), (6, 12, 9), (2, 3, 3)])
def test_without_a_ridge_a_map_is_the_pseudo_inverse_of_centred_rows(n: int, dim_x: int, dim_y: int) -> None:
    x, y = _rows(n, dim_x, 0), _rows(n, dim_y, 1)
    map_ = LCA().fit(x, y)
    expected = np.linalg.pinv(_centred(x)) @ _centred(y)
    np.testing.assert_allclose(map_.weights_, expected, atol=1e-6)
    np.testing.assert_allclose(map_.transform(x), _centred(x) @ expected, atol=1e-5)


@pytest.mark.parametrize(("n", "dim_x", "dim_y"), [(60, 8, 5), (6, 12, 9)])
def test_published_lca_is_the_pseudo_inverse_of_the_rows_as_they_are(n: int, dim_x: int, dim_y: int) -> None:
    x, y = _rows(n, dim_x, 0) + np.float32(2.0), _rows(n, dim_y, 1) - np.float32(1.0)
    aligned = AlignedMoments({"x": dim_x, "y": dim_y})
    aligned.add({"x": x, "y": y})
    map_ = LCA.published(aligned, "x", "y")
    expected = np.linalg.pinv(x.astype(np.float64)) @ y
    np.testing.assert_allclose(map_.weights_, expected, atol=1e-6)
    np.testing.assert_allclose(map_.transform(x), x @ expected, atol=1e-5)


@settings(max_examples=30)
@given(n=st.integers(2, 40), dim=st.integers(1, 12), ridge=st.floats(0.001, 30.0), seed=st.integers(0, 9))
def test_a_ridge_is_in_mean_squared_distances_from_the_mean(n: int, dim: int, ridge: float, seed: int) -> None:
    x, y = _rows(n, dim, seed), _rows(n, dim + 1, seed + 100)
    wide, target = _centred(x), _centred(y)
    alpha = ridge * (wide**2).sum() / n
    expected = np.linalg.solve(wide.T @ wide + alpha * np.eye(dim), wide.T @ target)
    np.testing.assert_allclose(LCA(ridge).fit(x, y).weights_, expected, atol=1e-6)


def test_a_ridge_can_shrink_towards_leaving_things_as_they_are() -> None:
    x, y = _rows(20, 6, 0), _rows(20, 6, 1)
    wide, target = _centred(x), _centred(y)
    alpha = 0.5 * (wide**2).sum() / 20
    expected = np.eye(6) + np.linalg.solve(wide.T @ wide + alpha * np.eye(6), wide.T @ (target - wide))
    np.testing.assert_allclose(LCA(0.5, stay=True).fit(x, y).weights_, expected, atol=1e-6)
    np.testing.assert_allclose(LCA(1e9, stay=True).fit(x, y).weights_, np.eye(6), atol=1e-6)


def test_dimensions_cut_both_sides_to_their_principal_axes() -> None:
    x, y = _rows(50, 10, 0), _rows(50, 7, 1)
    wide, target = _centred(x), _centred(y)
    x_axes, y_axes = (np.linalg.svd(rows, full_matrices=False)[2][:4] for rows in (wide, target))
    expected = x_axes.T @ np.linalg.pinv(wide @ x_axes.T) @ (target @ y_axes.T) @ y_axes
    np.testing.assert_allclose(LCA(dimensions=4).fit(x, y).weights_, expected, atol=1e-5)


def test_dimensions_and_leaving_things_as_they_are_move_a_row_within_its_principal_axes_only() -> None:
    x, y = _rows(50, 10, 0), _rows(50, 10, 1)
    wide, target = _centred(x), _centred(y)
    axes = np.linalg.svd(wide, full_matrices=False)[2][:4]
    alpha = 0.5 * (wide**2).sum() / 50
    cut = wide @ axes.T
    moved = np.linalg.solve(cut.T @ cut + alpha * np.eye(4), cut.T @ (target - wide))
    map_ = LCA(0.5, 4, stay=True).fit(x, y)
    np.testing.assert_allclose(map_.weights_, np.eye(10) + axes.T @ moved, atol=1e-6)
    across = np.eye(10) - axes.T @ axes
    np.testing.assert_allclose(across @ map_.weights_, across, atol=1e-6)
    np.testing.assert_allclose(LCA(1e9, 4, stay=True).fit(x, y).weights_, np.eye(10), atol=1e-6)


def test_fitting_in_pieces_is_fitting_at_once() -> None:
    x, y = _rows(90, 6, 0), _rows(90, 4, 1)
    aligned = AlignedMoments({"x": 6, "y": 4})
    for start in range(0, 90, 13):
        aligned.add({"x": x[start : start + 13], "y": y[start : start + 13]})
    np.testing.assert_allclose(LCA(0.3).fit_moments(aligned, "x", "y").weights_, LCA(0.3).fit(x, y).weights_, atol=1e-9)


def test_lcc_is_the_published_block_regression() -> None:
    """Inputs [X, 0] and [0, Y], target [X, Y] for both, principal axes of the fitted values."""
    x, y = _rows(40, 5, 0), _rows(40, 5, 1)
    wide, other = _centred(x), _centred(y)
    inputs = np.block([[wide, np.zeros_like(wide)], [np.zeros_like(other), other]])
    targets = np.tile(np.concatenate([wide, other], axis=1), (2, 1))
    alpha = 0.2 * (wide**2).sum() / 40, 0.2 * (other**2).sum() / 40
    penalty = np.diag(np.repeat(alpha, 5))
    weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ targets)
    axes = np.linalg.svd(inputs @ weights, full_matrices=False)[2][:3]
    expected = inputs @ weights @ axes.T
    codes = LCC(3, 0.2).fit({"x": x, "y": y})
    found = np.concatenate([codes.transform(x, "x"), codes.transform(y, "y")])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)  # axes are free in their sign


def test_published_lcc_takes_the_ridge_of_the_least_leave_one_out_error_and_a_code_as_wide_as_the_input() -> None:
    x = _rows(12, 4, 0)
    y = x @ _rows(4, 4, 5) + 2 * _rows(12, 4, 1)
    wide, other = _centred(x), _centred(y)
    inputs = np.block([[wide, np.zeros_like(wide)], [np.zeros_like(other), other]])
    targets = np.tile(np.concatenate([wide, other], axis=1), (2, 1))

    def left_out_error(ridge: float) -> float:
        """Every row is predicted from the other rows, with an intercept."""
        errors = []
        for row in range(len(inputs)):
            rest = np.delete(np.arange(len(inputs)), row)
            means = inputs[rest].mean(axis=0), targets[rest].mean(axis=0)
            shifted = inputs[rest] - means[0]
            penalised = shifted.T @ shifted + ridge * np.eye(8)
            weights = np.linalg.solve(penalised, shifted.T @ (targets[rest] - means[1]))
            errors.append(((inputs[row] - means[0]) @ weights + means[1] - targets[row]) ** 2)
        return float(np.mean(errors))

    best = min(PUBLISHED_RIDGES, key=left_out_error)
    codes = LCC.published(x, y)
    assert codes.ridge == best
    weights = np.linalg.solve(inputs.T @ inputs + best * np.eye(8), inputs.T @ targets)
    axes = np.linalg.svd(inputs @ weights, full_matrices=False)[2][:4]
    expected = inputs @ weights @ axes.T
    found = np.concatenate([codes.transform(x, "x"), codes.transform(y, "y")])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)


def test_lcc_takes_languages_of_any_number_and_width_and_can_be_cut() -> None:
    rows = {"a": _rows(30, 5, 0), "b": _rows(30, 7, 1), "c": _rows(30, 4, 2)}
    codes = LCC(6, 0.1).fit(rows)
    assert codes.languages == ["a", "b", "c"]
    assert codes.transform(rows["b"], "b").shape == (30, 6)
    np.testing.assert_array_equal(codes.cut(2).transform(rows["c"], "c"), codes.transform(rows["c"], "c")[:, :2])
    with pytest.raises(BadInput, match="knows no 'd'"):
        codes.transform(rows["a"], "d")


def test_a_rotation_is_found() -> None:
    """Two spaces that differ by a rotation and a shift: from fifty documents every other mate is found."""
    turn = np.linalg.qr(_rows(16, 16, 5))[0].astype(np.float32)
    x = _rows(150, 16, 0)
    y = x @ turn + np.float32(3.0)
    map_ = LCA(0.01).fit(y[:50], x[:50])
    assert mates(x[50:] - x[:50].mean(axis=0), map_.transform(y[50:])).rate == 1.0
    assert mates(x[50:], y[50:]).rate < 0.2


def test_fewer_pairs_than_dimensions_and_duplicates_are_learnt_from() -> None:
    x, y = _rows(5, 30, 0), _rows(5, 30, 1)
    twice = LCA(0.1).fit(np.tile(x, (2, 1)), np.tile(y, (2, 1)))
    assert np.isfinite(twice.weights_).all()
    assert np.isfinite(LCA().fit(np.tile(x, (2, 1)), np.tile(y, (2, 1))).weights_).all()


def test_bad_rows_get_one_sentence() -> None:
    x = _rows(5, 3, 0)
    with pytest.raises(BadInput, match=r"not aligned .rows: x 5, y 4"):
        LCA().fit(x, x[:4])
    with pytest.raises(BadInput, match="not finite"):
        LCA().fit(x, np.where(x == x[2, 1], np.float32(np.nan), x))
    with pytest.raises(BadInput, match="1 aligned document;"):
        LCA().fit(x[:1], x[:1])
    with pytest.raises(BadInput, match="one only"):
        LCC().fit({"en": x})
    with pytest.raises(BadInput, match="3 columns are wanted"):
        AlignedMoments({"x": 3}).add({"x": _rows(2, 4, 0)})


def test_mates_that_tie_take_the_last_place() -> None:
    rows = np.eye(3, dtype=np.float32)
    assert mates(rows, rows).rate == 1.0
    worst = mates(rows, np.ones((3, 3), dtype=np.float32))
    assert (worst.rate, round(worst.mrr, 4)) == (0.0, 0.3333)


def test_lcc_as_wide_as_its_input_takes_exact_axes() -> None:
    """Half of the axes of a large matrix are all that the published width asks for."""
    rows = np.random.default_rng(0).standard_normal((1500, 1100)) * np.linspace(1, 2, 1100)
    second = rows.T @ rows
    axes = _leading_axes(second, 550)
    values = np.linalg.eigvalsh(second)[::-1][:550]
    np.testing.assert_allclose(axes.T @ second @ axes, np.diag(values), atol=1e-6 * values[0])


def test_lcc_as_published_needs_two_rows() -> None:
    with pytest.raises(BadInput, match="1 aligned document; give 2 or more"):
        LCC.published(np.ones((1, 3), np.float32), np.ones((1, 3), np.float32))
