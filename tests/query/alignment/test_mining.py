"""One-to-one pairs by margin are those of the whole matrix; passages and clear pairs add to them and do no harm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.document import FloatArray, Passages, int8_rows, unit_rows
from encoders.errors import BadInput
from query.alignment import matching, mining
from query.alignment.coverage import PassageRows, coverage
from query.alignment.matching import MARGINS, Margin, Pairs, align, match
from query.alignment.mining import AlignmentPlan, clear_pairs, fit_pair_maps, helpful_maps, mine
from query.alignment.side import Side, debiased
from query.calibration.margin import FLOOR
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
    for score, row, col in zip(coverage(a, b, rows, cols), rows, cols, strict=True):
        cosines = firsts[row] @ seconds[col].T
        assert score == pytest.approx(min(cosines.max(axis=1).mean(), cosines.max(axis=0).mean()), abs=0.02)  # int8


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
    assert clear_pairs(Pairs(np.array([0, 1, 2, 0]), np.array([0, 1, 2, 3]), scores, scores), 3, 4).tolist() == [3, 1]


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


def test_cosines_are_of_vectors_as_they_came() -> None:
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


def random_sides(n: int, m: int, dim: int = 24, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Two sides whose first rows are noisy copies of each other."""
    chance = np.random.default_rng(seed)
    x, y = (chance.standard_normal((size, dim)).astype(np.float32) for size in (n, m))
    shared = min(n, m) // 2
    y[:shared] = x[:shared] + 0.8 * y[:shared]
    return unit_rows(x), unit_rows(y[chance.permutation(m)])


def whole_matrix(x: FloatArray, y: FloatArray, k: int, margin: Margin) -> FloatArray:
    cosines = x @ y.T
    forward = np.sort(cosines, axis=1)[:, -k:].mean(axis=1)
    means = (forward[:, None] + np.sort(cosines, axis=0)[-k:].mean(axis=0)[None]) / np.float32(2)
    scores: FloatArray = {"ratio": cosines / np.maximum(means, FLOOR), "distance": cosines - means}.get(margin, cosines)
    return scores


def competitive(scores: FloatArray) -> dict[int, int]:
    """Pairs of a whole matrix: the best of all, then the best of what is left."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for place in np.argsort(-scores, axis=None, kind="stable").tolist():
        row, col = divmod(place, scores.shape[1])
        if row not in pairs and col not in taken:
            pairs[row] = col
            taken.add(col)
    return pairs


def as_dict(found: Pairs) -> dict[int, int]:
    return dict(zip(found.rows.tolist(), found.cols.tolist(), strict=True))


@settings(max_examples=30)
@given(
    n=st.integers(1, 90),
    m=st.integers(1, 90),
    k=st.integers(1, 12),
    margin=st.sampled_from(MARGINS),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_the_whole_matrix(n: int, m: int, k: int, margin: Margin, seed: int) -> None:
    x, y = random_sides(n, m, seed=seed)
    scores = whole_matrix(x, y, k, margin)
    found = align(x, y, k=k, margin=margin)
    assert as_dict(found) == competitive(scores)
    assert len(found.rows) == min(n, m)
    np.testing.assert_allclose(found.scores, scores[found.rows, found.cols], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.cosines, (x @ y.T)[found.rows, found.cols], atol=1e-5)
    assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize("margin", MARGINS)
def test_several_tiles_and_used_up_candidates_change_nothing(margin: Margin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_ROWS", 64)
    monkeypatch.setattr(matching, "_COLS", 96)
    monkeypatch.setattr(matching, "KEPT", 2)
    x, y = random_sides(500, 430)
    assert as_dict(align(x, y, margin=margin)) == competitive(whole_matrix(x, y, 4, margin))


def test_a_threshold_leaves_out_what_is_below_it_and_nothing_else() -> None:
    x, y = random_sides(300, 200)
    every = align(x, y)
    some = align(x, y, threshold=1.1)
    kept = every.scores >= 1.1
    assert 0 < kept.sum() < len(kept)
    assert as_dict(some) == dict(zip(every.rows[kept].tolist(), every.cols[kept].tolist(), strict=True))
    assert len(align(x, y, threshold=float("inf")).rows) == 0


def test_matching_leaves_without_a_pair_whose_candidates_are_taken_and_zeros_have_finite_scores() -> None:
    rows, cols = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    scores = np.array([0.9, 0.5, 0.8, 0.7], np.float32)
    assert as_dict(match(Pairs(rows, cols, scores, scores))) == {0: 0}
    assert as_dict(match(Pairs(rows[1:], cols[1:], scores[1:], scores[1:]))) == {1: 0, 0: 1}
    assert np.isfinite(align(np.zeros((3, 4), np.float32), np.full((200, 4), 0.5, np.float32)).scores).all()


def test_what_cannot_be_aligned_is_said() -> None:
    x = unit_rows(np.eye(4, dtype=np.float32))
    with pytest.raises(BadInput, match="the threshold is no number"):
        align(x, x, threshold=float("nan"))
    with pytest.raises(BadInput, match="at least one neighbour"):
        align(x, x, k=0)
    with pytest.raises(BadInput, match="both sides need one encoder"):
        align(x, x[:, :3])
    broken = x.copy()
    broken[2, 1] = np.nan
    with pytest.raises(BadInput, match="the second side's vector 2 has a value that is no number"):
        align(x, broken)
