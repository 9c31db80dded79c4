"""Bounds of inner products hold, and are narrow."""

import numpy as np
import pytest

from encoders.document import FloatArray, unit_rows
from indexer.stores.quantised_rows import QuantisedRows

DIM = 384


def _like_an_encoder(chance: np.random.Generator, count: int) -> FloatArray:
    """Unit rows with large cosines, as sentence encoders make them."""
    common = chance.standard_normal(DIM)
    return unit_rows((common + 0.5 * chance.standard_normal((count, DIM))).astype(np.float32))


@pytest.mark.parametrize("count", [1, 20_003])
@pytest.mark.parametrize("length", [1.0, 300.0])
def test_inner_products_are_within_their_bounds(count: int, length: float) -> None:
    chance = np.random.default_rng(0)
    vectors = _like_an_encoder(chance, count) * np.float32(length)
    queries = np.concatenate((_like_an_encoder(chance, 3), vectors[:1], np.zeros((1, DIM), np.float32)))
    queries[1] *= np.float32(50)
    exact = queries.astype(np.float64) @ vectors.astype(np.float64).T
    bounds = list(QuantisedRows(vectors).bounds(queries))
    assert len(bounds) == len(queries)
    for products, (lower, width) in zip(exact, bounds, strict=True):
        assert (lower <= products).all()
        assert (products <= lower + width).all()
    assert bounds[0][1].max() < 0.015 * length


def test_the_largest_numbers_that_int8_holds_do_not_overflow() -> None:
    vectors = np.concatenate((np.ones((2, DIM), np.float32), -np.ones((2, DIM), np.float32)))
    (lower, width), (of_negative, _) = QuantisedRows(vectors).bounds(vectors[[0, 2]])
    assert lower + width / 2 == pytest.approx([DIM, DIM, -DIM, -DIM], abs=0.01 * DIM)
    assert of_negative + width / 2 == pytest.approx([-DIM, -DIM, DIM, DIM], abs=0.01 * DIM)
