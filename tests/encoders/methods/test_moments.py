"""Moments of vectors: one pass, and little memory for few vectors."""

import tracemalloc

import numpy as np
import pytest

from encoders.methods.moments import Moments

_DIM = 64


@pytest.mark.parametrize("sizes", [[], [0], [1], [3, 2], [5, 4], [8, 1], [7, 30, 2]])
def test_moments_are_those_of_all_vectors_however_they_come(sizes: list[int]) -> None:
    random = np.random.default_rng(0)
    blocks = [random.standard_normal((size, _DIM)).astype(np.float32) for size in sizes]
    moments = Moments(_DIM)
    for block in blocks:
        moments.add(block)
    rows = np.concatenate([np.zeros((0, _DIM)), *blocks])
    assert moments.count == len(rows)
    assert moments.second == pytest.approx(rows.T @ rows, abs=1e-10)
    assert moments.total == pytest.approx(rows.sum(axis=0), abs=1e-10)
    if len(rows):
        assert moments.spread == pytest.approx(rows.var(axis=0).sum(), rel=1e-6)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 40), (40, 40), (0, 3)])
def test_sums_of_moments_are_the_moments_of_both(first: int, second: int) -> None:
    rows = np.random.default_rng(1).standard_normal((first + second, _DIM)).astype(np.float32)
    one, other, both = Moments(_DIM), Moments(_DIM), Moments(_DIM)
    for block, moments in ((rows[:first], one), (rows[first:], other)):
        moments.add(block)
        both.add(block)
    total = one + other
    assert total.count == both.count
    assert np.array_equal(total.second, both.second)
    total.add(rows)
    assert one.count == first, "the terms stay as they were"


def test_hundreds_of_languages_with_one_document_take_little_memory() -> None:
    vector = np.ones((1, 384), dtype=np.float32)
    tracemalloc.start()
    kept = [Moments(384) for _ in range(400)]
    for moments in kept:
        moments.add(vector)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 10_000_000, "400 matrices would take 470 MB"
