"""Candidates of a query, against plain transcriptions: mates, fusion with words, neighbourhoods in a bank."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import Document, FloatArray, Rows, unit_rows
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import BAR, Bank
from query.calibration.comparison_space import CorrectedQueries
from query.ranking import bank_neighbourhoods
from query.ranking import candidate_mates as mates_module
from query.ranking.bank_neighbourhoods import BankNeighbourhoods
from query.ranking.candidate_mates import LIFTERS, Mates, subjects
from query.ranking.candidates import CandidateDocuments
from query.ranking.fusion import DEPTH, fuse
from tests.query.synthetic import calls_of

ONE_PART = VectorParts.equal(4)
TWO_PARTS = VectorParts((2, 2), (0.25, 0.75))


@dataclass
class Candidates:
    """Candidates of a query: random documents of several languages, with scores."""

    documents: CandidateDocuments
    rows: Rows
    scores: FloatArray
    lifters: int = LIFTERS
    bar: float = BAR

    @property
    def mates(self) -> Mates:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mates_module, "LIFTERS", self.lifters)
            return Mates.among(self.documents, self.rows, self.scores[self.rows], self.bar)

    def cosine(self, row: int, other: int) -> float:
        """The weighted mean of the parts' cosines, over the parts that know both documents."""
        parts = self.documents.vector_parts
        total = weight_of_all = 0.0
        for columns, weight in zip(parts.slices, parts.weights, strict=True):
            left, right = self.documents.vectors[row, columns], self.documents.vectors[other, columns]
            if len(parts.widths) == 1 or (left.any() and right.any()):
                total += float(left @ right)
                weight_of_all += weight
        return total / weight_of_all if weight_of_all else 0.0

    @property
    def cosines(self) -> dict[tuple[int, int], float]:
        """The cosine of each mate with its document, by the rows of the document and of the mate."""
        langs, cosines = self.documents.langs, {}
        best = sorted(sorted(self.rows.tolist(), key=lambda row: (-self.scores[row], row))[: self.lifters])
        for row in self.rows.tolist():
            for lang in set(langs) - {langs[row]}:
                in_lang = [lifter for lifter in best if langs[lifter] == lang]
                if not in_lang:
                    continue
                mate = max(in_lang, key=lambda lifter: self.cosine(row, lifter))
                of_language = [other for other in self.rows.tolist() if langs[other] == langs[row]]
                if max(of_language, key=lambda other: self.cosine(other, mate)) == row:
                    cosines[row, mate] = self.cosine(row, mate)
        return cosines


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    """Vectors of quarters, whose products are exact, so that equal cosines are equal in the transcription, too."""
    chance = np.random.default_rng(draw(st.integers(0, 9999)))
    counts = draw(st.lists(st.integers(0, 6), max_size=4))
    parts = draw(st.sampled_from([ONE_PART, TWO_PARTS]))
    borders = [0, *np.cumsum(counts, dtype=int).tolist()]
    languages = {f"l{at}": slice(borders[at], borders[at + 1]) for at in range(len(counts))}
    vectors = chance.integers(-2, 4, (borders[-1], 4)).astype(np.float32) / np.float32(4)
    if parts is TWO_PARTS:
        for columns in parts.slices:
            vectors[chance.random(borders[-1]) < 0.3, columns] = 0
    scores = (chance.integers(-20, 60, borders[-1]) / 32).astype(np.float32)
    rows = np.flatnonzero(chance.random(borders[-1]) < 0.8)
    documents = CandidateDocuments([f"d{row}" for row in range(borders[-1])], languages, vectors, vectors, parts)
    lifters, bar = draw(st.sampled_from([1, 3, LIFTERS])), draw(st.sampled_from([BAR, 0.7]))
    return Candidates(documents, rows, scores, lifters, bar)


def by_rows(mates: Mates) -> dict[tuple[int, int], float]:
    """The weight of each mate that has one, by the rows of the document and of the mate."""
    places = np.argwhere(mates.weights > 0).tolist()
    return {(int(mates.rows[at]), int(mates.mates[at, m])): float(mates.weights[at, m]) for at, m in places}


@given(candidates())
def test_mutually_nearest_documents_weigh_by_the_bar_of_the_collection(case: Candidates) -> None:
    """From the bar a mate counts fully, .4 below it not at all."""
    weights = {pair: min(1.0, 1 + (cosine - case.bar) / 0.4) for pair, cosine in case.cosines.items()}
    assert by_rows(case.mates) == pytest.approx({pair: by for pair, by in weights.items() if by > 1e-6}, abs=1e-5)


def added(weights: dict[tuple[int, int], float], scores: FloatArray, row: int) -> float:
    """What mates add to a candidate: half of the largest lead and half of the mean difference, of itself too."""
    leads = [(weight, float(scores[mate] - scores[row])) for (of, mate), weight in weights.items() if of == row]
    largest_lead = max([0.0, *(weight * lead for weight, lead in leads)])
    mean = sum(weight * lead for weight, lead in leads) / (1 + sum(weight for weight, _ in leads))
    return 0.98 * (0.5 * largest_lead + 0.5 * mean)


@given(candidates())
def test_mates_add_half_of_the_largest_lead_and_half_of_the_mean(case: Candidates) -> None:
    """A document that is not ranked stays so, and neither lifts nor lowers a mate."""
    mates, weights, expected = case.mates, by_rows(case.mates), case.scores.astype(np.float64)
    for row, gain, mate in zip(mates.rows.tolist(), *mates.gains(case.scores), strict=True):
        expected[row] += added(weights, case.scores, row)
        assert gain == pytest.approx(added(weights, case.scores, row), abs=1e-5)
        of_row = {other: weight for (of, other), weight in weights.items() if of == row}
        ahead = {other: weight * (case.scores[other] - case.scores[row]) for other, weight in of_row.items()}
        assert (mate >= 0) == bool(ahead)
        if ahead:
            assert ahead[mate] == pytest.approx(max(ahead.values()), abs=1e-6)
    assert mates.added(case.scores) == pytest.approx(expected, abs=1e-5)
    scores = case.scores.copy()
    scores[::2] = -np.inf
    result = mates.added(scores)
    assert np.isneginf(result[::2]).all()
    assert np.isfinite(result[1::2]).all()


@given(candidates(), st.integers(0, 9999))
def test_mates_of_a_selection_are_those_that_both_stay_and_count(case: Candidates, seed: int) -> None:
    chance = np.random.default_rng(seed)
    selection = np.flatnonzero(chance.random(len(case.scores)) < 0.7)
    counted = chance.random(len(selection)) < 0.8
    staying = set(selection[counted].tolist())
    selected = case.mates.selected(selection, counted)
    expected = {pair: weight for pair, weight in by_rows(case.mates).items() if set(pair) <= staying}
    again = {(int(selection[row]), int(selection[mate])): by for (row, mate), by in by_rows(selected).items()}
    assert again == expected
    assert selection[selected.rows].tolist() == [row for row in case.rows.tolist() if row in staying]


@given(candidates(), st.integers(0, 9))
def test_each_hit_is_in_one_subject_with_one_hit_of_a_language_and_subjects_stay(case: Candidates, few: int) -> None:
    """Hits of a subject are mates, however distantly; with more hits no subject made before loses a hit."""
    documents = replace(case.documents, raw=case.documents.vectors)
    ranks = np.argsort(np.argsort(-case.scores[case.rows], kind="stable"))
    every = documents.selected(case.rows)
    first = np.sort(np.flatnonzero(ranks < few))
    pages = {doc_id: Document(doc_id, "de", f"{doc_id} " * 9) for doc_id in documents.doc_ids}
    read = lambda doc_ids: [pages[doc_id] for doc_id in doc_ids]  # noqa: E731
    groups, _ = subjects(every.selected(first), ranks[first], [], case.bar, read, mates=True)
    wider, _ = subjects(every, ranks, groups, case.bar, read, mates=True)
    assert sorted(rank for group in wider for rank in group) == list(range(len(ranks)))
    assert [group[: len(of_few)] for group, of_few in zip(wider, groups, strict=False)] == groups
    langs = np.array(every.langs)[np.argsort(ranks)]
    assert all(len({langs[rank] for rank in group}) == len(group) for group in wider)
    alone, _ = subjects(every, ranks, [], case.bar, read, mates=False)
    assert alone == [[rank] for rank in range(len(ranks))]


def floats(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(("best", "order"), [(None, [0, 2, 1]), (20, [0, 1, 2])])
def test_a_language_that_shares_little_with_the_query_keeps_its_order(best: float | None, order: list[int]) -> None:
    assert fuse(["fr"] * 3, floats(0.9, 0.6, 0.5), floats(0, 0, 2), best).tolist() == order
    assert fuse(["fr"] * 3, floats(3, 2, 1), floats(0, 0, 0), best and 0.0).tolist() == [0, 1, 2]


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
    langs = [row[0] for row in rows]
    scores, words = floats(*(row[1] for row in rows)), floats(*(row[2] for row in rows))
    assert fuse(langs, scores, words).tolist() == _oracle(langs, scores, words)


PARTS = VectorParts.equal(12)
CHANCE = np.random.default_rng(3)


def unit(count: int) -> FloatArray:
    return unit_rows(CHANCE.standard_normal((count, 12)).astype(np.float32))


def numbered(numbers: Sequence[int], vectors: FloatArray) -> CandidateDocuments:
    raw = vectors[list(numbers)]
    return CandidateDocuments([f"d{number}" for number in numbers], {"de": slice(0, len(raw))}, raw, raw, PARTS)


@pytest.fixture
def bank() -> Bank:
    return Bank(CorrectedQueries(unit(16)), tuple(f"d{number}" for number in range(16)), 3)


def test_documents_met_before_have_the_same_neighbourhoods(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, neighbourhoods = unit(40), BankNeighbourhoods(lambda _: bank)
    cosines = vectors @ bank.queries.vectors.T
    cosines[range(16), range(16)] = -np.inf
    expected = np.sort(cosines, axis=1)[:, -3:].mean(axis=1)
    compared = calls_of(monkeypatch, CandidateDocuments, "cosines")
    for numbers in (range(30), range(5, 40), range(40), [7, 3]):
        found = neighbourhoods.of(numbered(numbers, vectors), "en")
        np.testing.assert_allclose(found, expected[list(numbers)], rtol=1e-5)
    assert [len(documents.doc_ids) for documents, _ in compared] == [30, 10]


def test_a_document_that_changed_or_is_of_another_language_is_compared_again(bank: Bank) -> None:
    """Vectors lose another language's component, though they are stored alike."""
    vectors, neighbourhoods = unit(8), BankNeighbourhoods(lambda _: bank)
    neighbourhoods.of(numbered(range(8), vectors.copy()), "en")
    vectors[5] = unit(1)[0]
    changed = numbered(range(8), vectors)
    for other in (changed, replace(changed, languages={"fr": slice(0, 8)}, vectors=unit(8))):
        of_unmet = BankNeighbourhoods(lambda _: bank).of(other, "en")
        np.testing.assert_allclose(neighbourhoods.of(other, "en"), of_unmet, rtol=1e-6)


def test_memory_is_bounded(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_neighbourhoods, "_MOST", 50)
    vectors, neighbourhoods = unit(100), BankNeighbourhoods(lambda _: bank)
    for start in range(0, 100, 20):
        neighbourhoods.of(numbered(range(start, start + 20), vectors), "en")
    assert len(neighbourhoods._known) == 20
    neighbourhoods.of(numbered(range(100), vectors), "en")
    assert len(neighbourhoods._known) == 50
