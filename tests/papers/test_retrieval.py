"""Precision at k by cosine and CSLS, against the definitions written out."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.document import FloatArray, unit_rows
from papers.retrieval import equivalents_ranks, precision


def _random(seed: int, count: int) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, 5)).astype(np.float32))


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 30), st.integers(12, 40))
def test_it_is_the_definition(seed: int, queries: int, candidates: int) -> None:
    asked, among = _random(seed, queries), _random(seed + 1, candidates)
    right = [{row % candidates, (row + 3) % candidates} for row in range(queries)]
    found = equivalents_ranks(asked, among, right)
    cosines = (asked @ among.T).astype(np.float64)
    near_query = np.sort(cosines, axis=1)[:, -10:].mean(axis=1)
    near_candidate = np.sort(cosines, axis=0)[-10:].mean(axis=0)
    csls = 2 * cosines - near_query[:, None] - near_candidate[None]
    for scores, ours in ((cosines, found["cosine"]), (csls, found["csls"])):
        orders = np.argsort(-scores, axis=1)
        for k, share in zip((1, 5, 10), precision(ours), strict=True):
            hits = [bool(set(order[:k].tolist()) & rows) for order, rows in zip(orders, right, strict=True)]
            assert abs(share - 100 * np.mean(hits)) < 150 / queries  # equal scores may go either way


def test_a_query_without_an_equivalent_is_not_found() -> None:
    vectors = _random(0, 4)
    found = equivalents_ranks(vectors, vectors, [{0}, {1}, set(), {3}])
    assert precision(found["cosine"]) == [75, 75, 75]


def test_a_candidate_that_is_near_everything_is_held_back_by_csls() -> None:
    angles = np.radians([0, 20, 40, 60, 80])
    queries = np.stack([np.cos(angles), np.sin(angles), np.zeros(5)], axis=1).astype(np.float32)
    mates = queries + np.array([0, 0, 1.0], np.float32)
    hub = np.array([[np.cos(0.7), np.sin(0.7), 0.2]], np.float32)
    candidates = unit_rows(np.concatenate([mates, hub]).astype(np.float32))
    found = equivalents_ranks(queries, candidates, [{row} for row in range(5)])
    assert precision(found["csls"])[0] > precision(found["cosine"])[0]
