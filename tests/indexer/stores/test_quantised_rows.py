"""Bounds of inner products hold, and are narrow."""

from itertools import pairwise

import numpy as np
import pytest

from encoders.document import FloatArray, int8_rows, unit_rows
from indexer.stores.quantised_rows import LARGEST_DIGIT, QuantisedRows, QueryDigits, row_blocks

DIM = 384


def _like_an_encoder(chance: np.random.Generator, count: int) -> FloatArray:
    """Unit rows with large cosines, as sentence encoders make them."""
    common = chance.standard_normal(DIM)
    return unit_rows((common + 0.5 * chance.standard_normal((count, DIM))).astype(np.float32))


def _require_bounds(vectors: FloatArray, queries: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    exact = queries.astype(np.float64) @ vectors.astype(np.float64).T
    span = slice(0, len(vectors))
    bounds = list(zip(*QuantisedRows(vectors, row_blocks({"en": span})).bounds({"en": queries}), strict=True))
    assert len(bounds) == len(queries)
    for products, (lower, upper) in zip(exact, bounds, strict=True):
        assert (lower <= products).all()
        assert (products <= upper).all()
    return bounds


@pytest.mark.parametrize("count", [1, 20_003])
@pytest.mark.parametrize("length", [1.0, 300.0])
def test_inner_products_are_within_their_bounds(count: int, length: float) -> None:
    chance = np.random.default_rng(0)
    vectors = _like_an_encoder(chance, count) * np.float32(length)
    queries = np.concatenate((_like_an_encoder(chance, 3), vectors[:1], np.zeros((1, DIM), np.float32)))
    queries[1] *= np.float32(50)
    lower, upper = _require_bounds(vectors, queries)[0]
    assert lower.dtype == upper.dtype == np.float32
    assert (upper - lower).max() < 0.015 * length


def test_bounds_hold_for_queries_along_what_quantising_lost() -> None:
    vectors = _like_an_encoder(np.random.default_rng(0), 50)
    rest = vectors - vectors.mean(axis=0)
    residuals = rest - int8_rows(rest) * (np.abs(rest).max(axis=1, keepdims=True) / np.float32(127))
    bounds = _require_bounds(vectors, np.concatenate((unit_rows(residuals), -unit_rows(residuals))))
    rows = np.arange(50)
    lower, upper = (np.stack(of_queries)[rows, rows] for of_queries in zip(*bounds[:50], strict=True))
    products = (unit_rows(residuals).astype(np.float64) * vectors).sum(axis=1)
    assert ((upper - products) < 0.05 * (upper - lower)).all()  # the bound is reached, so a smaller one would not hold


def test_bounds_hold_for_vectors_along_what_a_query_s_digits_leave_out() -> None:
    query = _like_an_encoder(np.random.default_rng(0), 1)
    left_out = unit_rows(QueryDigits.of(query).residuals)[0]
    vectors = np.zeros((2, DIM), np.float32)
    for row, sign in enumerate((1, -1)):  # numbers that int8 holds
        vectors[row] = np.rint(left_out * (127 * sign / np.abs(left_out).max()))
    _require_bounds(vectors, query)


def test_two_products_fit_in_sixteen_bits_and_the_largest_numbers_are_right() -> None:
    vectors = np.concatenate((np.ones((2, DIM), np.float32), -np.ones((2, DIM), np.float32)))
    queries = vectors[[0, 2]]
    digits = QueryDigits.of(queries).moved
    assert digits.min() == 0
    assert digits.max() == 2 * LARGEST_DIGIT
    assert 2 * int(digits.max()) * 127 < 2**15
    for (lower, upper), sign in zip(_require_bounds(vectors, queries), (1, -1), strict=True):
        assert (lower + upper) / 2 == pytest.approx(sign * np.array([DIM, DIM, -DIM, -DIM]), abs=0.01 * DIM)


def test_each_number_of_a_query_is_its_digits_and_a_small_residual() -> None:
    queries = _like_an_encoder(np.random.default_rng(0), 4)
    digits = QueryDigits.of(queries)
    high, low = np.split(digits.moved.astype(np.float64) - LARGEST_DIGIT, 2)
    assert high * digits.high_units + low * digits.low_units + digits.residuals == pytest.approx(queries, abs=1e-7)
    assert np.linalg.norm(digits.residuals, axis=1).max() < 2e-4


def test_small_languages_share_a_block_and_a_large_language_has_several() -> None:
    sizes = {"a": 300, "b": 3_000, "c": 800, "d": 100, "e": 4_000, "f": 45_001, "g": 0, "h": 5}
    ends = np.cumsum([0, *sizes.values()]).tolist()
    blocks = row_blocks({lang: slice(*ends[place : place + 2]) for place, lang in enumerate(sizes)})
    assert ["".join(block.languages) for block in blocks] == ["abc", "de", "f", "f", "f", "h"]
    assert [block.rows for block in blocks] == [
        slice(min(rows.start for rows in spans), max(rows.stop for rows in spans))
        for spans in (block.languages.values() for block in blocks)
    ]
    rows = [span for block in blocks for span in block.languages.values()]
    assert [(span.start, span.stop) for span in rows] == list(pairwise([*ends[:6], 23_200, 38_200, *ends[-2:]]))
