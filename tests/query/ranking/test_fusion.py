"""Words reorder documents within a language, and languages keep their places."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray
from query.ranking.fusion import DEPTH, best_lexical_score, fuse, lexical_scores


def floats(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(("best", "order"), [(None, [0, 2, 1]), (20, [0, 1, 2])])
def test_a_language_that_shares_little_with_the_query_keeps_its_order(best: float | None, order: list[int]) -> None:
    assert fuse(["fr"] * 3, floats(0.9, 0.6, 0.5), floats(0, 0, 2), best).tolist() == order
    assert fuse(["fr"] * 3, floats(3, 2, 1), floats(0, 0, 0), best and 0.0).tolist() == [0, 1, 2]


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


@given(ranked, st.integers(0, 7), st.integers(-50, 50), st.integers(0, 7))
def test_scales_do_not_matter(rows: list[tuple[str, int, int]], factor: int, shift: int, times: int) -> None:
    """Powers of two, so that rounding decides nothing."""
    langs, scores, words = [row[0] for row in rows], floats(*(row[1] for row in rows)), floats(*(r[2] for r in rows))
    assert fuse(langs, scores * 2**factor + shift, words * 2**times).tolist() == fuse(langs, scores, words).tolist()
