"""Vectors made of parts: cosines are weighted means over the parts that both sides know; moments of vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.moments import Moments, PartMoments
from encoders.methods.vector_parts import VectorParts, parsed_weights, shown_weights

WIDTHS = (5, 3, 4)


def some(count: int, seed: int) -> FloatArray:
    chance = np.random.default_rng(seed)
    rows = chance.standard_normal((count, sum(WIDTHS))).astype(np.float32)
    for columns in VectorParts.equal(*WIDTHS).slices:
        rows[chance.random(count) < 0.3, columns] = 0
    return rows


def oracle(row: FloatArray, query: FloatArray, weights: tuple[float, ...]) -> float:
    """Σ w cos / Σ w over the parts that neither lacks."""
    total = weight = 0.0
    for columns, one in zip(VectorParts.equal(*WIDTHS).slices, weights, strict=True):
        a, b = row[columns].astype(float), query[columns].astype(float)
        if a.any() and b.any():
            total += one * (a @ b) / np.linalg.norm(a) / np.linalg.norm(b)
            weight += one
    return total / weight if weight else 0.0


@given(st.tuples(*[st.floats(0.1, 1)] * 3), st.integers(0, 1000))
def test_a_cosine_is_the_weighted_mean_over_the_parts_that_both_know(weights: tuple[float, ...], seed: int) -> None:
    parts = VectorParts(WIDTHS, weights)
    rows, queries = some(6, seed), some(4, seed + 1)
    expected = [[oracle(row, query, parts.weights) for query in queries] for row in rows]
    found = parts.cosines(parts.weighed(parts.unit(rows)), parts.weighed(parts.unit(queries)))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(parts.plain_cosines(unit_rows(rows), unit_rows(queries)), expected, atol=1e-5)


def test_a_row_counts_where_a_part_of_some_weight_knows_it() -> None:
    rows = np.ones((3, sum(WIDTHS)), dtype=np.float32)
    rows[1, :5] = rows[2, 5:] = 0
    assert VectorParts(WIDTHS, (1, 0, 0)).comparable(rows).tolist() == [True, False, True]
    assert VectorParts(WIDTHS, (0, 1, 1)).comparable(rows).tolist() == [True, True, False]
    assert VectorParts.equal(12).comparable(rows * 0).tolist() == [False] * 3


def test_a_part_that_does_not_count_says_nothing_and_one_part_is_an_ordinary_vector() -> None:
    parts, rows = VectorParts(WIDTHS, (1, 0, 0)), some(9, 1)
    found = parts.cosines(parts.weighed(parts.unit(rows)), parts.weighed(parts.unit(rows)))
    np.testing.assert_allclose(found, unit_rows(rows[:, :5]) @ unit_rows(rows[:, :5]).T, atol=1e-6)
    parts, rows = VectorParts.equal(12), unit_rows(some(5, 2))
    assert parts.unit(rows) is parts.weighed(rows) is rows
    np.testing.assert_array_equal(parts.cosines(rows, rows), rows @ rows.T)


def test_weights_are_one_in_all_and_are_read_and_shown_as_they_are_typed() -> None:
    assert VectorParts((2, 2), (3, 1)).weights == (0.75, 0.25)
    assert shown_weights(VectorParts(WIDTHS, (1, 1, 2)).weights) == "0.25,0.25,0.5"
    assert shown_weights((1.0,)) == shown_weights(()) == ""
    assert parsed_weights("0.3, 0.7") == (0.3, 0.7)
    with pytest.raises(BadInput, match=r"'0\.3;0\.7' is not"):
        parsed_weights("0.3;0.7")


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ((1.0,), "the vectors have 2 parts, one for each encoder; give 2 weights, not 1"),
        *[(pair, "weights") for pair in ((1.0, -0.5), (0.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0))],
    ],
)
def test_what_is_no_weight_is_refused(weights: tuple[float, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        VectorParts((2, 2), weights)


_DIM = 64


@pytest.mark.parametrize("sizes", [[], [0], [1], [3, 2], [0, 5, 4], [7, 30, 2]])
def test_moments_are_those_of_all_vectors_however_they_come(sizes: list[int]) -> None:
    random, moments, parts = np.random.default_rng(0), Moments(_DIM), VectorParts.equal(24, 40)
    of_parts, sums = PartMoments(parts), PartMoments(parts)
    blocks = [parts.unit(random.standard_normal((size, _DIM)).astype(np.float32)) for size in sizes]
    for block in blocks:
        block[::3, :24] = 0  # a part that does not know the text
        moments.add(block)
        of_parts.add(block)
        alone = PartMoments(parts)
        alone.add(block)
        sums += alone
    rows = np.concatenate([np.zeros((0, _DIM)), *blocks])
    assert moments.count == len(rows)
    assert moments.second == pytest.approx(rows.T @ rows, abs=1e-10)
    assert moments.total == pytest.approx(rows.sum(axis=0), abs=1e-10)
    for part, columns in enumerate(parts.slices):
        known = rows[rows[:, columns].any(axis=1), columns]
        for made in (of_parts, sums):
            assert made.counts[part] == len(known)
            if len(known):
                assert made.mean[columns] == pytest.approx(known.mean(axis=0), abs=1e-7)
                assert made.spreads[part] == pytest.approx(known.var(axis=0).sum(), abs=1e-6)
