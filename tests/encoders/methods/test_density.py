"""What many sentences say weighs little: tophat density, weights, and the file they are kept in."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.density import DIMENSIONS, DensityWeights

_DIM = 40


def _clouds(sizes: list[int], spread: float = 0.05, seed: int = 0) -> FloatArray:
    """Unit vectors in clouds of these sizes, as sentences that say nearly the same."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(len(sizes), _DIM))
    rows = [centre + spread * random.normal(size=(size, _DIM)) for centre, size in zip(centres, sizes, strict=True)]
    return unit_rows(np.concatenate(rows).astype(np.float32))


def _paper_weights(sample: FloatArray, vectors: FloatArray, bandwidth: float) -> npt.NDArray[np.float64]:
    """LAWDR section 4 as it is written, with the volumes that the product leaves out."""
    mean = sample.mean(axis=0, dtype=np.float64)
    _, _, directions = np.linalg.svd(sample - mean, full_matrices=False)
    basis = directions[:DIMENSIONS].T
    points = (sample - mean) @ basis
    volume = math.pi ** (DIMENSIONS / 2) / math.gamma(DIMENSIONS / 2 + 1) * bandwidth**DIMENSIONS

    def density(rows: FloatArray) -> npt.NDArray[np.float64]:
        reduced = (rows - mean) @ basis
        inside = [[np.linalg.norm(row - point) <= bandwidth for point in points] for row in reduced]
        return np.array([sum(near) / (len(points) * volume) for near in inside])

    b = density(sample).sum() / (2 * len(sample))
    weights: npt.NDArray[np.float64] = b / (b + density(vectors))
    return weights


def test_weights_are_those_of_the_paper() -> None:
    sample, others = _clouds([60, 20, 5, 1, 1]), _clouds([9, 9, 9], seed=1)
    fitted = DensityWeights.fit(sample)
    for vectors in (sample, others):
        np.testing.assert_allclose(
            fitted.weights(vectors), _paper_weights(sample, vectors, fitted.bandwidth), rtol=1e-6
        )


def test_what_is_said_often_weighs_less_than_what_is_said_once() -> None:
    sample = _clouds([50, 5, *[1] * 30])
    weights = DensityWeights.fit(sample).weights(sample)
    assert weights[:50].mean() < weights[50:55].mean() < weights[55:].mean()
    assert weights.max() == weights[55:].min()


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    spread=st.sampled_from([0.0, 1e-4, 0.05, 1.0]),
    seed=st.integers(0, 99),
)
def test_weights_are_above_0_and_at_most_1_and_fall_with_density(sizes: list[int], spread: float, seed: int) -> None:
    sample = _clouds(sizes, spread, seed)
    fitted = DensityWeights.fit(sample)
    anything = np.concatenate((sample, _clouds([10, 10], 1.0, seed + 1)))
    weights, shares = fitted.weights(anything), fitted.shares(anything)
    assert weights.dtype == np.float32
    assert ((weights > 0) & (weights <= 1)).all()
    order = np.argsort(shares, kind="stable")
    assert (np.diff(weights[order]) <= 0).all()
    assert (weights[shares == 0] == 1).all()
    assert fitted.b == pytest.approx(fitted.shares(sample).mean() / 2)


def test_one_sentence_far_away_does_not_choose_the_bandwidth_of_all() -> None:
    crowd = _clouds([300])
    away = unit_rows(-crowd[:1])
    alone, accompanied = DensityWeights.fit(crowd), DensityWeights.fit(np.concatenate((crowd, away)))
    assert accompanied.bandwidth == pytest.approx(alone.bandwidth, rel=0.2)
    assert accompanied.weights(away)[0] == accompanied.weights(crowd).max()


def test_copies_do_not_shrink_the_bandwidth_to_nothing() -> None:
    sample = _clouds([40, 40, 40])
    once, often = DensityWeights.fit(sample), DensityWeights.fit(np.repeat(sample, 4, axis=0))
    assert often.bandwidth == pytest.approx(once.bandwidth, rel=0.2)
    mostly_copies = np.concatenate((sample, np.repeat(sample[:1], 500, axis=0)))
    weights = DensityWeights.fit(mostly_copies).weights(mostly_copies)
    assert weights[-1] < weights[1:120].min()


def test_longer_vectors_have_a_bandwidth_longer_by_as_much() -> None:
    once = _clouds([30, 10, 5, 1, 1])
    noise = np.random.default_rng(1).normal(scale=6e-8, size=once.shape)
    sample = np.concatenate((once, once, (once + noise).astype(np.float32)))
    unit, longer = DensityWeights.fit(sample), DensityWeights.fit(32 * sample)
    assert longer.bandwidth == pytest.approx(32 * unit.bandwidth, rel=1e-6)
    assert longer.weights(32 * once) == pytest.approx(unit.weights(once), rel=1e-3)


@pytest.mark.parametrize("size", [1, 2, 3, 15, 16, 17])
def test_a_small_sample_gives_weights_all_the_same(size: int) -> None:
    sample = _clouds([1] * size)
    fitted = DensityWeights.fit(sample)
    weights = fitted.weights(np.concatenate((sample, _clouds([3], 1.0, 5))))
    assert np.isfinite(weights).all()
    assert ((weights > 0) & (weights <= 1)).all()
    assert fitted.bandwidth > 0


def test_equal_vectors_weigh_the_same() -> None:
    sample = np.repeat(_clouds([1]), 50, axis=0)
    np.testing.assert_allclose(DensityWeights.fit(sample).weights(sample), 1 / 3)


def test_the_order_of_the_sample_does_not_matter() -> None:
    sample = _clouds([30, 10, 3])
    weights = DensityWeights.fit(sample).weights(sample)
    turned = DensityWeights.fit(sample[::-1]).weights(sample)
    assert float(np.corrcoef(weights, turned)[0, 1]) > 0.999


def test_no_vectors_have_no_weights() -> None:
    assert DensityWeights.fit(_clouds([9])).weights(np.zeros((0, _DIM), dtype=np.float32)).shape == (0,)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_sample_without_rows_or_with_a_nan_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="at least one sentence"):
        DensityWeights.fit(np.zeros((0, _DIM), dtype=np.float32))
    with pytest.raises(BadInput, match="not finite"):
        DensityWeights.fit(np.full((3, _DIM), value, dtype=np.float32))


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    sample = _clouds([30, 10, 3])
    fitted = DensityWeights.fit(sample)
    fitted.save(tmp_path / "lawdr.npz")
    loaded = DensityWeights.load(tmp_path / "lawdr.npz")
    assert loaded.id == fitted.id
    np.testing.assert_array_equal(loaded.weights(sample), fitted.weights(sample))
    assert DensityWeights.fit(sample[1:]).id != fitted.id


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    at = data.index(b"NUMPY") + 200
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [_cut, _flip, lambda _: b"", lambda _: b"{}", lambda data: b"x" + data[1:]])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path, damage: object) -> None:
    file = tmp_path / "lawdr.npz"
    DensityWeights.fit(_clouds([30])).save(file)
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(BadInput, match=r"lawdr\.npz can't be read; make it again: dragoman train lawdr"):
        DensityWeights.load(file)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("b", np.float64(0)),
        ("b", np.float64(np.nan)),
        ("bandwidth", np.float64(-1)),
        ("mean", np.zeros(3, dtype=np.float32)),
        ("points", np.zeros((0, DIMENSIONS), dtype=np.float32)),
        ("points", np.full((5, DIMENSIONS), np.nan, dtype=np.float32)),
        ("components", np.zeros(7)),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, entry: str, value: object) -> None:
    file = tmp_path / "lawdr.npz"
    DensityWeights.fit(_clouds([30])).save(file)
    with np.load(file) as data:
        entries = dict(data)
    entries[entry] = np.asarray(value)
    np.savez(file, **entries, allow_pickle=False)
    with pytest.raises(BadInput, match="holds no density of sentences; make it again"):
        DensityWeights.load(file)
