"""Words reorder documents within a language, and languages keep their places."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray
from query.ranking.fusion import DEPTH, best_lexical_score, fuse, lexical_scores


def floats(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float32)


def test_a_document_that_both_arms_like_comes_before_one_that_a_single_arm_likes() -> None:
    order = fuse(["en"] * 4, floats(0.9, 0.8, 0.6, 0.5), floats(0, 8, 10, 0))
    assert order.tolist() == [1, 0, 2, 3]  # 0.75 + 0.32, 1 + 0, 0.25 + 0.5, 0 + 0


def test_without_shared_words_the_order_stays() -> None:
    assert fuse(["en", "de", "en"], floats(3, 2, 1), floats(0, 0, 0)).tolist() == [0, 1, 2]
    assert fuse([], floats(), floats()).tolist() == []


def test_every_place_keeps_its_language() -> None:
    order = fuse(["de", "en", "de", "en", "de"], floats(0.9, 0.8, 0.3, 0.2, 0.1), floats(0, 0, 0, 0, 5))
    assert order.tolist() == [0, 1, 4, 3, 2]


def test_a_language_that_shares_little_with_the_query_keeps_its_order() -> None:
    langs, scores, words = ["fr"] * 3, floats(0.9, 0.6, 0.5), floats(0, 0, 2)
    assert fuse(langs, scores, words).tolist() == [0, 2, 1]
    assert fuse(langs, scores, words, best=20).tolist() == [0, 1, 2]


def test_equal_dense_scores_leave_the_order_to_the_words() -> None:
    assert fuse(["en"] * 3, floats(1, 1, 1), floats(0, 1, 2)).tolist() == [2, 1, 0]
    assert fuse(["en"], floats(1), floats(3)).tolist() == [0]


def test_what_was_found_by_words_is_lined_up_with_the_documents() -> None:
    found: dict[str, list[tuple[str, float]]] = {"de": [("a", 7.5), ("b", 2.0)], "en": [("c", 3.0)], "fr": []}
    assert lexical_scores(["c", "x", "a"], found).tolist() == [3.0, 0.0, 7.5]
    assert best_lexical_score(found) == 7.5
    assert best_lexical_score({"fr": []}) == best_lexical_score({}) == 0.0


ranked = st.lists(
    st.tuples(st.sampled_from(["de", "en", "ja"]), st.integers(-1000, 1000), st.one_of(st.just(0), st.integers(0, 40))),
    max_size=80,
).map(lambda rows: sorted(rows, key=lambda row: -row[1]))


def _oracle(langs: list[str], scores: FloatArray, words: FloatArray) -> list[int]:
    """One place after the other, each by the best that is left of its language."""
    best = max(words, default=0) or 1.0
    values = {}
    for lang in set(langs):
        rows = [row for row, other in enumerate(langs) if other == lang]
        top, floor = float(scores[rows[0]]), float(scores[rows[:DEPTH][-1]])
        for row in rows:
            place = (float(scores[row]) - floor) / (top - floor) if top > floor else 0.0
            share = float(words[row]) / best
            values[row] = place + 0.5 * (share * share)
    order: list[int] = []
    for lang in langs:
        left = [row for row, other in enumerate(langs) if other == lang and row not in order]
        order.append(max(left, key=lambda row: (values[row], -row)))
    return order


@given(ranked)
def test_fusion_agrees_with_its_formula(rows: list[tuple[str, int, int]]) -> None:
    langs, scores, words = [row[0] for row in rows], floats(*(row[1] for row in rows)), floats(*(r[2] for r in rows))
    order = fuse(langs, scores, words)
    assert order.tolist() == _oracle(langs, scores, words)
    assert [langs[row] for row in order] == langs
    for place, row in enumerate(order):  # nobody is overtaken by one whom both arms like less
        better = [other for other in order[place + 1 :] if langs[other] == langs[row]]
        assert not any(scores[other] > scores[row] and words[other] > words[row] for other in better)


@given(ranked, st.integers(1, 64), st.integers(-50, 50), st.integers(1, 64))
def test_scales_do_not_matter(rows: list[tuple[str, int, int]], factor: int, shift: int, times: int) -> None:
    """Powers of two, so that rounding decides nothing."""
    factor, times = 2 ** (factor % 8), 2 ** (times % 8)
    langs, scores, words = [row[0] for row in rows], floats(*(row[1] for row in rows)), floats(*(r[2] for r in rows))
    assert fuse(langs, scores * factor + shift, words * times).tolist() == fuse(langs, scores, words).tolist()


@pytest.mark.parametrize("best", [0.0, None])
def test_no_score_is_ever_divided_by_nothing(best: float | None) -> None:
    assert fuse(["en", "en"], floats(2, 1), floats(0, 0), best).tolist() == [0, 1]
