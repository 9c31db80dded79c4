"""Passages and clear pairs: what they add to an alignment, and that they do no harm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.document import FloatArray, Passages, int8_rows, unit_rows
from query.alignment import mining
from query.alignment.coverage import PassageRows, coverage
from query.alignment.matching import Pairs
from query.alignment.mining import AlignmentPlan, clear_pairs, fit_pair_maps, helpful_maps, mine
from query.alignment.side import Side, debiased
from tests.query.synthetic import calls_of


def side(vectors: FloatArray, passages: list[FloatArray] | None = None) -> Side:
    parts = passages if passages is not None else [row[None] for row in vectors]
    packed = PassageRows.pack(
        [Passages(int8_rows(part), np.array([[at, at + 1] for at in range(len(part))], np.int32)) for part in parts],
        vectors,
    )
    names = [f"d{at}" for at in range(len(vectors))]
    return Side("side", names, vectors, packed, names)


def translated(count: int, dim: int = 32, seed: int = 0, bend: float = 0.7) -> tuple[FloatArray, FloatArray]:
    """Documents, and the same bent by a random map: another language."""
    chance = np.random.default_rng(seed)
    x = chance.standard_normal((count, dim)).astype(np.float32)
    change = np.eye(dim) + bend * chance.standard_normal((dim, dim)) / np.sqrt(dim)
    y = x @ change.astype(np.float32) + 0.7 * chance.standard_normal(x.shape).astype(np.float32)
    return unit_rows(x), unit_rows(y)


def recall(a: Side, b: Side, plan: AlignmentPlan) -> float:
    pairs = mine(a, b, plan).pairs
    return float((pairs.rows == pairs.cols).mean())


@settings(max_examples=25)
@given(seed=st.integers(0, 999), n=st.integers(1, 6), m=st.integers(1, 6))
def test_coverage_is_the_lesser_of_both_directions_means(seed: int, n: int, m: int) -> None:
    """A document without passages is a passage itself."""
    chance = np.random.default_rng(seed)

    def documents(count: int) -> list[FloatArray]:
        return [chance.standard_normal((int(chance.integers(0, 5)), 16)).astype(np.float32) for _ in range(count)]

    def packed(parts: list[FloatArray]) -> tuple[PassageRows, list[FloatArray]]:
        vectors = unit_rows(chance.standard_normal((len(parts), 16)).astype(np.float32))
        return side(vectors, parts).passages, [
            unit_rows(part) if len(part) else row[None] for part, row in zip(parts, vectors, strict=True)
        ]

    (a, firsts), (b, seconds) = packed(documents(n)), packed(documents(m))
    rows, cols = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(m), indexing="ij"))
    found = coverage(a, b, rows, cols)
    for score, row, col in zip(found, rows, cols, strict=True):
        cosines = firsts[row] @ seconds[col].T
        expected = min(cosines.max(axis=1).mean(), cosines.max(axis=0).mean())
        assert score == pytest.approx(expected, abs=0.02)  # int8


def test_passages_tell_documents_apart_whose_vectors_are_alike() -> None:
    chance = np.random.default_rng(3)
    topics = unit_rows(chance.standard_normal((60, 48)).astype(np.float32))
    parts = [topics[chance.choice(60, 3, replace=False)] for _ in range(40)]
    others = [part + 0.6 * unit_rows(chance.standard_normal(part.shape).astype(np.float32)) for part in parts]
    blurred = [unit_rows(part.sum(axis=0, keepdims=True) + 3 * topics[:1])[0] for part in parts]
    noise = 0.8 * unit_rows(chance.standard_normal((40, 48)).astype(np.float32))
    a, b = side(np.stack(blurred), parts), side(unit_rows(np.stack(blurred) + noise), others)
    assert recall(a, b, AlignmentPlan(rounds=0)) > recall(a, b, AlignmentPlan(rounds=0, passages=False))


def test_maps_learnt_from_clear_pairs_find_others_and_leave_equal_sides_as_they_are() -> None:
    a, b = (side(vectors) for vectors in translated(600, bend=1.3))
    before, after = (recall(a, b, AlignmentPlan(passages=False, rounds=rounds)) for rounds in (0, 1))
    assert after > before + 0.05
    assert mine(a, b, AlignmentPlan()).learnt_from >= 40
    x, _ = translated(300)
    for map_ in fit_pair_maps(x, x):
        np.testing.assert_allclose(map_, np.eye(32), atol=1e-5)
    scores = np.array([0.9, 0.8, 0.7, 0.95], np.float32)
    found = Pairs(np.array([0, 1, 2, 0]), np.array([0, 1, 2, 3]), scores, scores)
    assert clear_pairs(found, 3, 4).tolist() == [3, 1]


def test_nothing_is_learnt_where_there_are_no_true_pairs_or_too_few() -> None:
    chance = np.random.default_rng(5)
    x, y = (unit_rows(chance.standard_normal((500, 32)).astype(np.float32)) for _ in range(2))
    assert mine(side(x), side(y), AlignmentPlan()).learnt_from == 0
    few = translated(30)
    assert mine(side(few[0]), side(few[1]), AlignmentPlan()).learnt_from == 0
    assert helpful_maps(x[:200], y[:200]) is None


@pytest.mark.parametrize("rank", [0, 1])
def test_debiasing_takes_out_what_a_language_shares(rank: int) -> None:
    x, y = translated(300)
    shift = unit_rows(np.random.default_rng(9).standard_normal((1, 32)).astype(np.float32))
    a, b = side(unit_rows(x + 2 * shift)), side(unit_rows(y - 2 * shift))
    without = AlignmentPlan(margin="absolute", debias=None, passages=False, rounds=0)
    assert recall(a, b, AlignmentPlan(margin="absolute", debias=rank, passages=False, rounds=0)) > recall(a, b, without)
    assert debiased(a, None) is a


@pytest.mark.parametrize("passages", [True, False])
def test_one_document_no_document_and_equal_documents_get_an_answer(passages: bool) -> None:
    plan = AlignmentPlan(passages=passages)
    vectors = translated(20)[0]
    same = side(np.repeat(vectors[:1], 60, axis=0))
    for a, b, count in (
        (side(vectors[:1]), side(vectors[:1]), 1),
        (side(vectors[:1]), side(vectors), 1),
        (side(vectors), side(vectors[:0]), 0),
        (same, same, 60),
    ):
        pairs = mine(a, b, plan).pairs
        assert len(pairs.rows) == count
        assert np.isfinite(pairs.scores).all()
    assert mine(side(vectors[:1]), side(vectors), plan).pairs.cols.tolist() == [0]


def test_a_side_of_some_documents_keeps_their_passages_and_cosines_are_of_vectors_as_they_came() -> None:
    vectors = translated(5)[0]
    parts = [np.repeat(row[None], at + 1, axis=0) for at, row in enumerate(vectors)]
    some = side(vectors, parts).only(np.array([3, 1]))
    assert some.doc_ids == ["d3", "d1"]
    assert some.passages.starts.tolist() == [0, 4, 6]
    np.testing.assert_allclose(unit_rows(some.passages.vectors.astype(np.float32))[4], vectors[1], atol=0.02)
    a, b = (side(vectors) for vectors in translated(100))
    pairs = mine(a, b, AlignmentPlan()).pairs
    np.testing.assert_allclose(pairs.cosines, (a.vectors @ b.vectors.T)[pairs.rows, pairs.cols], atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 16])
def test_a_few_documents_are_paired_with_scores_that_can_be_read(count: int) -> None:
    """A mean over as good as all documents is next to nothing, and nothing is divided by that."""
    x, y = translated(count, bend=0.2)
    mined = mine(side(x), side(y), AlignmentPlan())
    assert mined.k == max(1, min(4, count // 4))
    assert (mined.pairs.rows == mined.pairs.cols).all()
    assert float(mined.pairs.scores.max()) < 4


def test_documents_that_are_all_alike_are_paired_in_a_bounded_number_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round finds the same sixteen candidates for all of them."""
    rounds = calls_of(monkeypatch, mining, "candidates")
    same = np.repeat(unit_rows(np.ones((1, 8), np.float32)), 600, axis=0)
    pairs = mine(side(same), side(same[:500]), AlignmentPlan(debias=None, rounds=0)).pairs
    assert 0 < len(rounds) <= 8
    assert len(set(pairs.rows.tolist())) == len(set(pairs.cols.tolist())) == len(pairs.rows) == 500
    assert pairs.scores == pytest.approx(np.ones(500), abs=1e-3)
