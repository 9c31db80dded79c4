"""What many sentences say weighs little: tophat density, weights, and the file they are kept in."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
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


def test_weights_are_those_of_the_paper_and_fall_with_how_often_a_sentence_is_said() -> None:
    sample, others = _clouds([60, 20, 5, 1, 1]), _clouds([9, 9, 9], seed=1)
    fitted = DensityWeights.fit(sample)
    for vectors in (sample, others):
        expected = _paper_weights(sample, vectors, fitted.bandwidth)
        np.testing.assert_allclose(fitted.weights(vectors), expected, rtol=1e-6)
    assert fitted.weights(sample[:0]).shape == (0,)
    crowded = _clouds([50, 5, *[1] * 30])
    weights = DensityWeights.fit(crowded).weights(crowded)
    assert weights[:50].mean() < weights[50:55].mean() < weights[55:].mean()
    assert weights.max() == weights[55:].min()
    equal = np.repeat(_clouds([1]), 50, axis=0)
    np.testing.assert_allclose(DensityWeights.fit(equal).weights(equal), 1 / 3)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    spread=st.sampled_from([0.0, 1e-4, 0.05, 1.0]),
    seed=st.integers(0, 99),
)
@example(sizes=[1] * 15, spread=0.05, seed=0)
@example(sizes=[1] * 16, spread=0.05, seed=0)
@example(sizes=[1] * 17, spread=0.05, seed=0)
def test_weights_are_above_0_and_at_most_1_and_fall_with_density(sizes: list[int], spread: float, seed: int) -> None:
    sample = _clouds(sizes, spread, seed)
    fitted = DensityWeights.fit(sample)
    assert fitted.bandwidth > 0
    anything = np.concatenate((sample, _clouds([10, 10], 1.0, seed + 1)))
    weights, shares = fitted.weights(anything), fitted.shares(anything)
    assert weights.dtype == np.float32
    assert ((weights > 0) & (weights <= 1)).all()
    assert (np.diff(weights[np.argsort(shares, kind="stable")]) <= 0).all()
    assert (weights[shares == 0] == 1).all()
    assert fitted.b == pytest.approx(fitted.shares(sample).mean() / 2)


def test_neither_a_far_sentence_nor_copies_nor_order_choose_the_bandwidth() -> None:
    crowd = _clouds([300])
    away = unit_rows(-crowd[:1])
    alone, accompanied = DensityWeights.fit(crowd), DensityWeights.fit(np.concatenate((crowd, away)))
    assert accompanied.bandwidth == pytest.approx(alone.bandwidth, rel=0.2)
    assert accompanied.weights(away)[0] == accompanied.weights(crowd).max()
    sample = _clouds([40, 40, 40])
    once, often = DensityWeights.fit(sample), DensityWeights.fit(np.repeat(sample, 4, axis=0))
    assert often.bandwidth == pytest.approx(once.bandwidth, rel=0.2)
    mostly_copies = np.concatenate((sample, np.repeat(sample[:1], 500, axis=0)))
    weights = DensityWeights.fit(mostly_copies).weights(mostly_copies)
    assert weights[-1] < weights[1:120].min()
    sample = _clouds([30, 10, 3])
    weights, turned = (DensityWeights.fit(rows).weights(sample) for rows in (sample, sample[::-1]))
    assert float(np.corrcoef(weights, turned)[0, 1]) > 0.999


def test_longer_vectors_have_a_bandwidth_longer_by_as_much() -> None:
    once = _clouds([30, 10, 5, 1, 1])
    noise = np.random.default_rng(1).normal(scale=6e-8, size=once.shape)
    sample = np.concatenate((once, once, (once + noise).astype(np.float32)))
    unit, longer = DensityWeights.fit(sample), DensityWeights.fit(32 * sample)
    assert longer.bandwidth == pytest.approx(32 * unit.bandwidth, rel=1e-6)
    assert longer.weights(32 * once) == pytest.approx(unit.weights(once), rel=1e-3)


def test_a_sample_without_rows_or_with_a_nan_is_refused() -> None:
    for rows, said in ((0, "at least one sentence"), (3, "not finite")):
        with pytest.raises(BadInput, match=said):
            DensityWeights.fit(np.full((rows, _DIM), np.nan, dtype=np.float32))
    with pytest.raises(BadInput, match="not finite"):
        DensityWeights.fit(np.full((3, _DIM), np.inf, dtype=np.float32))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    DensityWeights.fit(_clouds([30])).save(tmp_path / "lawdr.npz")
    return tmp_path / "lawdr.npz"


def test_what_is_saved_is_what_is_loaded(file: Path) -> None:
    sample = _clouds([30])
    fitted, loaded = DensityWeights.fit(sample), DensityWeights.load(file)
    assert loaded.id == fitted.id != DensityWeights.fit(sample[1:]).id
    np.testing.assert_array_equal(loaded.weights(sample), fitted.weights(sample))


def _flip(data: bytes) -> bytes:
    at = data.index(b"NUMPY") + 200
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], _flip, lambda _: b"", lambda _: b"{}", lambda data: b"x" + data[1:]]
)
def test_a_damaged_file_is_refused_with_what_to_do(file: Path, damage: Callable[[bytes], bytes]) -> None:
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(BadInput, match=r"lawdr\.npz can't be read; make it again: dragoman train lawdr"):
        DensityWeights.load(file)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("b", 0.0),
        ("b", np.nan),
        ("bandwidth", -1.0),
        ("mean", np.zeros(3, dtype=np.float32)),
        ("points", np.zeros((0, DIMENSIONS), dtype=np.float32)),
        ("points", np.full((5, DIMENSIONS), np.nan, dtype=np.float32)),
        ("components", np.zeros(7)),
    ],
)
def test_a_file_of_something_else_is_refused(file: Path, entry: str, value: object) -> None:
    with np.load(file) as data:
        entries = dict(data) | {entry: np.asarray(value)}
    np.savez(file, **entries, allow_pickle=False)
    with pytest.raises(BadInput, match="holds no density of sentences; make it again"):
        DensityWeights.load(file)
