"""LCA and LCC against a plain numpy transcription of the paper's formulas, and what they refuse; ``mapping.json``."""

import json
from collections.abc import Callable
from pathlib import Path

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
from encoders.maps.space_maps import HEADER, QueryEncoderSpec, SpaceMaps


def _rows(n: int, dim: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def _centred(rows: FloatArray) -> np.ndarray:
    wide = rows.astype(np.float64)
    return np.asarray(wide - wide.mean(axis=0))


def _moments(rows: dict[str, FloatArray]) -> AlignedMoments:
    """Learnt piece by piece, which is as if all came at once."""
    aligned = AlignedMoments({name: vectors.shape[1] for name, vectors in rows.items()})
    for start in range(0, max(map(len, rows.values())), 13):
        aligned.add({name: vectors[start : start + 13] for name, vectors in rows.items()})
    return aligned


def _fit(map_: LCA, x: FloatArray, y: FloatArray) -> LCA:
    return map_.fit_moments(_moments({"x": x, "y": y}), "x", "y")


@pytest.mark.parametrize(("n", "dim_x", "dim_y"), [(60, 8, 8), (60, 8, 5), (6, 12, 9), (2, 3, 3)])
def test_a_map_is_the_pseudo_inverse_of_rows_centred_or_as_they_are(n: int, dim_x: int, dim_y: int) -> None:
    x, y = _rows(n, dim_x, 0) + np.float32(2.0), _rows(n, dim_y, 1) - np.float32(1.0)
    aligned = _moments({"x": x, "y": y})
    for map_, wide, target in (
        (_fit(LCA(), x, y), _centred(x), _centred(y)),
        (LCA.published(aligned, "x", "y"), x.astype(np.float64), y),
    ):
        expected = np.linalg.pinv(wide) @ target
        np.testing.assert_allclose(map_.weights_, expected, atol=1e-6)
        np.testing.assert_allclose(map_.transform(x), wide @ expected, atol=1e-5)


@settings(max_examples=30)
@given(
    n=st.integers(2, 40),
    dim=st.integers(1, 12),
    ridge=st.floats(0.001, 30.0),
    seed=st.integers(0, 9),
    stay=st.booleans(),
)
def test_a_ridge_is_in_mean_squared_distances_from_the_mean(
    n: int, dim: int, ridge: float, seed: int, stay: bool
) -> None:
    """It shrinks towards nothing, or towards leaving things as they are."""
    x, y = _rows(n, dim, seed), _rows(n, dim + (not stay), seed + 100)
    wide, target = _centred(x), _centred(y)
    before, alpha = stay * np.eye(dim, target.shape[1]), ridge * (wide**2).sum() / n
    expected = before + np.linalg.solve(wide.T @ wide + alpha * np.eye(dim), wide.T @ (target - wide @ before))
    np.testing.assert_allclose(_fit(LCA(ridge, stay=stay), x, y).weights_, expected, atol=1e-6)


def test_dimensions_cut_to_principal_axes_and_with_stay_a_row_moves_within_them_only() -> None:
    x, y = _rows(50, 10, 0), _rows(50, 7, 1)
    wide, target = _centred(x), _centred(y)
    x_axes, y_axes = (np.linalg.svd(rows, full_matrices=False)[2][:4] for rows in (wide, target))
    expected = x_axes.T @ np.linalg.pinv(wide @ x_axes.T) @ (target @ y_axes.T) @ y_axes
    np.testing.assert_allclose(_fit(LCA(dimensions=4), x, y).weights_, expected, atol=1e-5)
    x, y = _rows(50, 10, 0), _rows(50, 10, 1)
    wide, target = _centred(x), _centred(y)
    axes = np.linalg.svd(wide, full_matrices=False)[2][:4]
    alpha = 0.5 * (wide**2).sum() / 50
    cut = wide @ axes.T
    moved = np.linalg.solve(cut.T @ cut + alpha * np.eye(4), cut.T @ (target - wide))
    map_ = _fit(LCA(0.5, 4, stay=True), x, y)
    np.testing.assert_allclose(map_.weights_, np.eye(10) + axes.T @ moved, atol=1e-6)
    across = np.eye(10) - axes.T @ axes
    np.testing.assert_allclose(across @ map_.weights_, across, atol=1e-6)
    np.testing.assert_allclose(_fit(LCA(1e9, 4, stay=True), x, y).weights_, np.eye(10), atol=1e-6)


def _blocks(x: FloatArray, y: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [X, 0] and [0, Y], target [X, Y] for both."""
    wide, other = _centred(x), _centred(y)
    inputs = np.block([[wide, np.zeros_like(wide)], [np.zeros_like(other), other]])
    return inputs, np.tile(np.concatenate([wide, other], axis=1), (2, 1))


def _assert_principal_axes(codes: LCC, x: FloatArray, y: FloatArray, penalty: np.ndarray, width: int) -> None:
    """The codes lie on the principal axes of the fitted values, which are free in their sign."""
    inputs, targets = _blocks(x, y)
    weights = np.linalg.solve(inputs.T @ inputs + np.diag(penalty), inputs.T @ targets)
    expected = inputs @ weights @ np.linalg.svd(inputs @ weights, full_matrices=False)[2][:width].T
    found = np.concatenate([codes.transform(x, "x"), codes.transform(y, "y")])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)


def test_lcc_is_the_published_block_regression() -> None:
    x, y = _rows(40, 5, 0), _rows(40, 5, 1)
    alpha = [0.2 * (_centred(rows) ** 2).sum() / 40 for rows in (x, y)]
    _assert_principal_axes(LCC(3, 0.2).fit_moments(_moments({"x": x, "y": y})), x, y, np.repeat(alpha, 5), 3)


def test_published_lcc_takes_the_ridge_of_the_least_leave_one_out_error_and_a_code_as_wide_as_the_input() -> None:
    x = _rows(12, 4, 0)
    y = x @ _rows(4, 4, 5) + 2 * _rows(12, 4, 1)
    inputs, targets = _blocks(x, y)

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
    _assert_principal_axes(codes, x, y, np.full(8, best), 4)


def test_lcc_takes_languages_of_any_number_and_width() -> None:
    rows = {"a": _rows(30, 5, 0), "b": _rows(30, 7, 1), "c": _rows(30, 4, 2)}
    codes = LCC(6, 0.1).fit_moments(_moments(rows))
    assert (list(codes.weights_), codes.transform(rows["b"], "b").shape) == (["a", "b", "c"], (30, 6))
    with pytest.raises(BadInput, match="knows no 'd'"):
        codes.transform(rows["a"], "d")


def test_a_rotation_is_found_and_mates_that_tie_take_the_last_place() -> None:
    """Two spaces that differ by a rotation and a shift: from fifty documents every other mate is found."""
    turn = np.linalg.qr(_rows(16, 16, 5))[0].astype(np.float32)
    x = _rows(150, 16, 0)
    y = x @ turn + np.float32(3.0)
    assert mates(x[50:] - x[:50].mean(axis=0), _fit(LCA(0.01), y[:50], x[:50]).transform(y[50:])).rate == 1.0
    assert mates(x[50:], y[50:]).rate < 0.2
    rows = np.eye(3, dtype=np.float32)
    assert mates(rows, rows).rate == 1.0
    worst = mates(rows, np.ones((3, 3), dtype=np.float32))
    assert (worst.rate, round(worst.mrr, 4)) == (0.0, 0.3333)


def test_few_pairs_and_duplicates_are_learnt_from() -> None:
    x, y = (np.tile(_rows(5, 30, seed), (2, 1)) for seed in (0, 1))
    assert all(np.isfinite(_fit(LCA(ridge), x, y).weights_).all() for ridge in (0.1, 0.0))


X = _rows(5, 3, 0)


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (lambda: _fit(LCA(), X, X[:4]), r"not aligned .rows: x 5, y 4"),
        (lambda: _fit(LCA(), X, np.where(X[2, 1] == X, np.float32(np.nan), X)), "not finite"),
        (lambda: _fit(LCA(), X[:1], X[:1]), "1 aligned document;"),
        (lambda: LCC().fit_moments(_moments({"en": X})), "one only"),
        (lambda: LCC.published(X[:1], X[:1]), "1 aligned document; give 2 or more"),
        (lambda: AlignedMoments({"x": 3}).add({"x": _rows(2, 4, 0)}), "3 columns are wanted"),
    ],
)
def test_bad_rows_get_one_sentence(refused: Callable[[], object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        refused()


def test_lcc_as_wide_as_its_input_takes_exact_axes() -> None:
    """Half of the axes of a large matrix are all that the published width asks for."""
    rows = np.random.default_rng(0).standard_normal((1500, 1100)) * np.linspace(1, 2, 1100)
    second = rows.T @ rows
    axes = _leading_axes(second, 550)
    values = np.linalg.eigvalsh(second)[::-1][:550]
    np.testing.assert_allclose(axes.T @ second @ axes, np.diag(values), atol=1e-6 * values[0])


@pytest.mark.parametrize("value", [None, "x", 5, True, [5], [[5]], {"x": 5}])
@pytest.mark.parametrize("entry", ["format", "model", "documents", "queries", "about", "asker"])
def test_a_value_of_another_type_is_refused(entry: str, value: object, tmp_path: Path) -> None:
    asker = QueryEncoderSpec("e", "segments", "m", 3)
    SpaceMaps("m", {("", "de"): np.eye(3, dtype=np.float32)}, {}, {}, asker).write(tmp_path)
    assert SpaceMaps.read(tmp_path).query_encoder == asker
    (tmp_path / HEADER).write_text(json.dumps({**json.loads((tmp_path / HEADER).read_text()), entry: value}))
    if (entry, value) in (("format", True), ("model", "x"), ("about", {"x": 5}), ("asker", None)):  # True == 1
        SpaceMaps.read(tmp_path)
        return
    with pytest.raises(BadInput, match="make it again"):
        SpaceMaps.read(tmp_path)
    (tmp_path / HEADER).write_text("[" * 100_000)
    with pytest.raises(BadInput, match="nested too deeply"):
        SpaceMaps.read(tmp_path)
