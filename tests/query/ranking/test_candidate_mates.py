"""Mates, against a plain transcription: who is whose mate, what mates add, and who is whose counterpart."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray
from encoders.methods.vector_parts import VectorParts
from indexer.stores.matrix import Rows
from query.calibration.calibration import BAR
from query.ranking import candidate_mates as mates_module
from query.ranking.candidate_mates import LIFTERS, Mates, counterparts
from query.ranking.candidates import CandidateDocuments

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
    def best(self) -> list[int]:
        """The rows of the documents that are mates of others, ascending."""
        best_first = sorted(self.rows.tolist(), key=lambda row: (-self.scores[row], row))
        return sorted(best_first[: self.lifters])

    @property
    def cosines(self) -> dict[tuple[int, int], float]:
        """The cosine of each mate with its document, by the rows of the document and of the mate."""
        langs, cosines = self.documents.langs, {}
        for row in self.rows.tolist():
            for lang in set(langs) - {langs[row]}:
                in_lang = [lifter for lifter in self.best if langs[lifter] == lang]
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
    doc_ids = [f"d{row}" for row in range(borders[-1])]
    documents = CandidateDocuments(doc_ids, languages, vectors, vectors, parts)
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
    mates, weights, expected = case.mates, by_rows(case.mates), case.scores.astype(np.float64)
    for row, gain, mate in zip(mates.rows.tolist(), *mates.gains(case.scores), strict=True):
        expected[row] += added(weights, case.scores, row)
        assert gain == pytest.approx(added(weights, case.scores, row), abs=1e-5)
        ahead = {
            other: weight * (case.scores[other] - case.scores[row])
            for (of, other), weight in weights.items()
            if of == row
        }
        assert (mate >= 0) == bool(ahead)
        if ahead:
            assert ahead[mate] == pytest.approx(max(ahead.values()), abs=1e-6)
    assert mates.added(case.scores) == pytest.approx(expected, abs=1e-5)


@given(candidates())
def test_a_document_that_is_not_ranked_takes_no_part(case: Candidates) -> None:
    """−∞ stays, and neither lifts nor lowers a mate."""
    scores = case.scores.copy()
    scores[::2] = -np.inf
    result = case.mates.added(scores)
    assert np.isneginf(result[::2]).all()
    assert np.isfinite(result[1::2]).all()


@given(candidates(), st.integers(0, 9999))
def test_mates_of_a_selection_are_those_that_both_stay_and_count(case: Candidates, seed: int) -> None:
    """What passages are compared of is a selection; its rows are new. Of it, a query's own candidates have mates."""
    chance = np.random.default_rng(seed)
    selection = np.flatnonzero(chance.random(len(case.scores)) < 0.7)
    counted = chance.random(len(selection)) < 0.8
    staying = set(selection[counted].tolist())
    selected = case.mates.selected(selection, counted)
    expected = {pair: weight for pair, weight in by_rows(case.mates).items() if set(pair) <= staying}
    again = {(int(selection[row]), int(selection[mate])): by for (row, mate), by in by_rows(selected).items()}
    assert again == expected
    assert selection[selected.rows].tolist() == [row for row in case.rows.tolist() if row in staying]


@given(candidates())
def test_counterparts_are_the_nearest_of_each_other_and_near(case: Candidates) -> None:
    """Among all candidates, however many."""
    expected: dict[int, list[int]] = {}
    for (row, mate), cosine in replace(case, lifters=len(case.scores)).cosines.items():
        if cosine >= max(0.4, case.bar - 0.2):
            expected.setdefault(row, []).append(mate)
    found = counterparts(case.documents, case.rows, case.bar)
    assert found == {row: sorted(mates) for row, mates in expected.items()}
    assert {(row, mate) for row, mates in found.items() for mate in mates} == {
        (mate, row) for row, mates in found.items() for mate in mates
    }
