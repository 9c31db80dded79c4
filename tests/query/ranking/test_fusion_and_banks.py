"""Words reorder documents within a language, and neighbourhoods in a bank are those of a comparison."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, unit_rows
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Bank
from query.calibration.comparison_space import CorrectedQueries
from query.ranking import bank_neighbourhoods
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidates import CandidateDocuments
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


DIM = 12
PARTS = VectorParts((DIM,), (1.0,))
CHANCE = np.random.default_rng(3)


def rows(count: int) -> FloatArray:
    return unit_rows(CHANCE.standard_normal((count, DIM)).astype(np.float32))


def candidates(numbers: Sequence[int], vectors: FloatArray) -> CandidateDocuments:
    raw = vectors[list(numbers)]
    return CandidateDocuments([f"d{number}" for number in numbers], {"de": slice(0, len(raw))}, raw, raw, PARTS)


@pytest.fixture
def bank() -> Bank:
    return Bank(CorrectedQueries(rows(16)), tuple(f"d{number}" for number in range(16)), 3)


def test_documents_met_before_have_the_same_neighbourhoods(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, neighbourhoods = rows(40), BankNeighbourhoods(lambda _: bank)
    cosines = vectors @ bank.queries.vectors.T
    cosines[range(16), range(16)] = -np.inf
    expected = np.sort(cosines, axis=1)[:, -3:].mean(axis=1)
    real, counts = CandidateDocuments.cosines, list[int]()

    def counted(documents: CandidateDocuments, queries: CorrectedQueries) -> FloatArray:
        counts.append(len(documents.doc_ids))
        return real(documents, queries)

    monkeypatch.setattr(CandidateDocuments, "cosines", counted)
    for numbers in (range(30), range(5, 40), range(40), [7, 3]):
        found = neighbourhoods.of(candidates(numbers, vectors), "en")
        np.testing.assert_allclose(found, expected[list(numbers)], rtol=1e-5)
    assert counts == [30, 10]


def test_a_document_that_changed_or_is_of_another_language_is_compared_again(bank: Bank) -> None:
    """Vectors lose another language's component, though they are stored alike."""
    vectors, neighbourhoods = rows(8), BankNeighbourhoods(lambda _: bank)
    neighbourhoods.of(candidates(range(8), vectors.copy()), "en")
    vectors[5] = rows(1)[0]
    changed = candidates(range(8), vectors)
    for other in (changed, replace(changed, languages={"fr": slice(0, 8)}, vectors=rows(8))):
        of_unmet = BankNeighbourhoods(lambda _: bank).of(other, "en")
        np.testing.assert_allclose(neighbourhoods.of(other, "en"), of_unmet, rtol=1e-6)


def test_memory_is_bounded(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_neighbourhoods, "_MOST", 50)
    vectors, neighbourhoods = rows(100), BankNeighbourhoods(lambda _: bank)
    for start in range(0, 100, 20):
        neighbourhoods.of(candidates(range(start, start + 20), vectors), "en")
    assert len(neighbourhoods._known) == 20
    neighbourhoods.of(candidates(range(100), vectors), "en")
    assert len(neighbourhoods._known) == 50
