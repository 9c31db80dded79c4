"""Mates, against a plain transcription: who is whose mate, and who lifts whom by how much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray
from encoders.methods.vector_parts import VectorParts
from indexer.stores.matrix import Rows
from query.ranking import mates as mates_module
from query.ranking.candidates import CandidateDocuments
from query.ranking.mates import Mates, counterparts

BAR = 0.5
LIFT = 0.8
ONE_PART = VectorParts.equal(4)
TWO_PARTS = VectorParts((2, 2), (0.25, 0.75))
NOTHING = np.float32(-np.inf)


@dataclass
class Candidates:
    """Candidates of a query: random documents of several languages, with scores."""

    documents: CandidateDocuments
    rows: Rows
    scores: FloatArray
    lift: float = LIFT
    bar: float = BAR
    lifters: int = 50

    @property
    def mates(self) -> Mates:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mates_module, "LIFTERS", self.lifters)
            scores = self.scores[self.rows]
            return Mates.among(self.documents, self.rows, scores, lift=self.lift, bar=self.bar)

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
    def weights(self) -> dict[tuple[int, int], float]:
        """The weight of each mate, by the rows of the document and of the mate."""
        langs, weights = self.documents.langs, {}
        best_first = sorted(self.rows.tolist(), key=lambda row: (-self.scores[row], row))
        lifters = sorted(best_first[: self.lifters])
        for row in self.rows.tolist():
            for lang in set(langs) - {langs[row]}:
                in_lang = [lifter for lifter in lifters if langs[lifter] == lang]
                if not in_lang:
                    continue
                mate = max(in_lang, key=lambda lifter: self.cosine(row, lifter))
                back = max(
                    (other for other in self.rows.tolist() if langs[other] == langs[row]),
                    key=lambda other: self.cosine(other, mate),
                )
                weight = min(1.0, max(0.0, (self.cosine(row, mate) - (self.bar - 0.4)) / 0.4))
                if back == row and self.lift * weight > 0:
                    weights[row, mate] = self.lift * weight
        return weights

    def lifted(self, scores: FloatArray) -> list[float]:
        """The scores after each document took on a part of its best mate's lead."""
        lifted: list[float] = scores.tolist()
        for (row, mate), weight in self.weights.items():
            if np.isfinite(scores[row]) and scores[mate] > scores[row]:
                lead = float(scores[mate]) - float(scores[row])
                lifted[row] = max(lifted[row], float(scores[row]) + weight * lead)
        return lifted


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    """Vectors of quarters, whose products are exact, so that equal cosines are equal in the transcription, too."""
    chance = np.random.default_rng(draw(st.integers(0, 9999)))
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    parts = draw(st.sampled_from([ONE_PART, TWO_PARTS]))
    borders = np.concatenate(([0], np.cumsum(counts))).tolist()
    languages = {f"l{at}": slice(borders[at], borders[at + 1]) for at in range(len(counts))}
    vectors = chance.integers(-2, 4, (borders[-1], 4)).astype(np.float32) / np.float32(4)
    if parts is TWO_PARTS:
        for columns in parts.slices:
            vectors[chance.random(borders[-1]) < 0.3, columns] = 0
    scores = (chance.integers(-20, 60, borders[-1]) / 32).astype(np.float32)
    rows = np.flatnonzero(chance.random(borders[-1]) < 0.8)
    doc_ids = [f"d{row}" for row in range(borders[-1])]
    return Candidates(
        CandidateDocuments(doc_ids, languages, vectors, vectors, parts),
        rows,
        scores,
        draw(st.sampled_from([0.0, 0.5, 1.0])),
        draw(st.sampled_from([0.3, 0.5, 0.75])),  # no cosine of sixteenths is at the foot of the ramp
        draw(st.sampled_from([1, 3, 50])),
    )


def by_rows(mates: Mates) -> dict[tuple[int, int], float]:
    """The weight of each mate that has one, by the rows of the document and of the mate."""
    places = np.argwhere(mates.weights > 0).tolist()
    return {(int(mates.rows[at]), int(mates.mates[at, m])): float(mates.weights[at, m]) for at, m in places}


@given(candidates())
def test_mates_are_mutually_nearest_between_languages(case: Candidates) -> None:
    assert by_rows(case.mates) == pytest.approx(case.weights)


@given(candidates(), st.integers(0, 9999))
def test_a_document_takes_on_a_part_of_its_best_mates_lead(case: Candidates, seed: int) -> None:
    """By any scores: those by passages are lifted by mates that were chosen by scores without them."""
    chance = np.random.default_rng(seed)
    scores = (chance.integers(-20, 60, len(case.scores)) / 32).astype(np.float32)
    scores[chance.random(len(scores)) < 0.2] = NOTHING
    lifted = case.mates.lifted(scores)
    assert lifted.tolist() == pytest.approx(case.lifted(scores), abs=1e-5)
    assert (lifted >= scores).all()
    assert (lifted[scores == NOTHING] == NOTHING).all()
    assert lifted.dtype == np.float32
    gains = np.zeros(len(scores))
    for row, lift in case.mates.lifts(scores).items():
        gains[row] = lift.gain
    assert gains == pytest.approx(np.where(scores == NOTHING, 0, lifted - np.maximum(scores, -9)), abs=1e-5)


@given(candidates())
def test_the_mate_that_lifts_is_of_another_language_and_better(case: Candidates) -> None:
    langs = case.documents.langs
    for row, lift in case.mates.lifts(case.scores).items():
        assert langs[row] != langs[lift.mate]
        assert lift.mate in case.rows
        assert case.scores[row] < case.scores[row] + lift.gain <= case.scores[lift.mate] + 1e-5


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
    scores = np.where(np.isin(np.arange(len(case.scores)), selection[counted]), case.scores, NOTHING)
    assert selected.lifted(scores[selection]).tolist() == case.mates.lifted(scores)[selection].tolist()


@given(candidates(), st.floats(0.3, 0.9))
def test_counterparts_are_the_nearest_of_each_other_and_near(case: Candidates, bar: float) -> None:
    """Among all candidates, however many; the bar's own half counts."""
    langs, rows = case.documents.langs, case.rows.tolist()
    expected: dict[int, list[int]] = {}
    for row in rows:
        for lang in case.documents.languages:
            nearest = [other for other in rows if langs[other] == lang != langs[row]]
            mate = max(nearest, key=lambda other: case.cosine(row, other), default=None)
            if mate is None or case.cosine(row, mate) < max(0.4, bar - 0.2):
                continue
            of_language = [other for other in rows if langs[other] == langs[row]]
            if max(of_language, key=lambda other: case.cosine(other, mate)) == row:
                expected.setdefault(row, []).append(mate)
    found = counterparts(case.documents, case.rows, bar)
    assert found == {row: sorted(mates) for row, mates in expected.items()}
    assert {(row, mate) for row, mates in found.items() for mate in mates} == {
        (mate, row) for row, mates in found.items() for mate in mates
    }


@given(candidates())
def test_the_same_candidates_have_the_same_mates(case: Candidates) -> None:
    mates, again = case.mates, replace(case).mates
    assert np.array_equal(mates.mates, again.mates)
    assert np.array_equal(mates.weights, again.weights)


def documents(rows: dict[str, list[list[float]]], parts: VectorParts) -> CandidateDocuments:
    """Documents of some languages with these vectors."""
    languages, start = {}, 0
    for lang, of_lang in rows.items():
        languages[lang] = slice(start, start + len(of_lang))
        start += len(of_lang)
    vectors = np.array([row for of_lang in rows.values() for row in of_lang], dtype=np.float32)
    return CandidateDocuments([str(row) for row in range(start)], languages, vectors, vectors, parts)


def among(of: CandidateDocuments, scores: list[float]) -> Mates:
    return Mates.among(of, np.arange(len(scores)), np.array(scores, np.float32), lift=LIFT, bar=BAR)


def test_a_mate_at_the_bar_counts_fully_and_nearly_orthogonal_ones_do_not() -> None:
    """The weight grows over cosines of 0.4 below the bar."""
    weights = []
    for cosine in (1.0, 0.5, 0.3, 0.1, 0.0):
        vectors = {"de": [[1.0, 0.0]], "fr": [[cosine, (1 - cosine**2) ** 0.5]]}
        mates = among(documents(vectors, VectorParts.equal(2)), [1.0, 0.5])
        weights.append(float(mates.weights[1].max()))
    assert weights == pytest.approx([LIFT, LIFT, LIFT / 2, 0, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("cosine", "bar", "same"), [(0.5, BAR, True), (0.41, BAR, True), (0.39, BAR, False), (0.5, 0.8, False)]
)
def test_mates_that_count_for_half_at_least_are_counterparts(cosine: float, bar: float, *, same: bool) -> None:
    """But none below a cosine of 0.4."""
    vectors = {"de": [[1.0, 0.0]], "fr": [[cosine, (1 - cosine**2) ** 0.5]]}
    found = counterparts(documents(vectors, VectorParts.equal(2)), np.arange(2), bar)
    assert found == ({0: [1], 1: [0]} if same else {})


def test_only_the_best_candidates_lift() -> None:
    """Sixty pairs of French and German counterparts: the German ones are the best, and from the 51st on don't lift."""
    pairs = np.eye(60, dtype=np.float32).tolist()
    of = documents({"de": pairs, "fr": pairs}, VectorParts.equal(60))
    scores = [float(at) for at in range(60, 0, -1)] + [0.0] * 60
    mates = among(of, scores)
    lifts = mates.lifts(np.array(scores, np.float32))
    assert sorted(lifts) == list(range(60, 110))
    assert all(lift.mate == row - 60 for row, lift in lifts.items())


def test_a_document_near_another_one_of_its_own_language_is_not_lifted_by_it() -> None:
    of = documents({"de": [[1.0, 0.0], [1.0, 0.0]], "fr": [[0.0, 1.0]]}, VectorParts.equal(2))
    assert among(of, [1.0, 0.5, 0.2]).lifts(np.array([1.0, 0.5, 0.2], np.float32)) == {}


def test_combined_vectors_are_compared_by_the_parts_that_know_both() -> None:
    """The second part knows no French: the first alone says that the French page is the German one's mate."""
    of = documents(
        {"de": [[0.5, 0.0, 0.0, 0.75**0.5], [0.0, 0.5, 0.75**0.5, 0.0]], "fr": [[0.5, 0.0, 0.0, 0.0]]}, TWO_PARTS
    )
    scores = np.array([1.0, 1.0, 0.5], np.float32)
    mates = among(of, scores.tolist())
    assert by_rows(mates) == pytest.approx({(0, 2): LIFT, (2, 0): LIFT})
    assert mates.lifted(scores).tolist() == pytest.approx([1.0, 1.0, 0.9])
    nobody = documents({"de": [[0.5, 0.0, 0.0, 0.0]], "fr": [[0.0, 0.0, 0.0, 0.75**0.5]]}, TWO_PARTS)
    assert by_rows(among(nobody, [1.0, 0.5])) == {}


@pytest.mark.parametrize("langs", [(), ("de",), ("de", "fr")])
def test_without_candidates_or_other_languages_nothing_is_lifted(langs: tuple[str, ...]) -> None:
    vectors = np.zeros((0, 4), np.float32)
    nobody = CandidateDocuments([], {lang: slice(0, 0) for lang in langs}, vectors, vectors, ONE_PART)
    mates = among(nobody, [])
    assert mates.lifted(np.zeros(0, np.float32)).shape == (0,)
    assert mates.lifts(np.zeros(0, np.float32)) == {}
    assert counterparts(nobody, np.zeros(0, np.intp), BAR) == {}
    assert mates.selected(np.zeros(0, np.intp), np.zeros(0, dtype=np.bool_)).rows.shape == (0,)
    alone = documents({"de": [[1.0, 0, 0, 0], [1.0, 0, 0, 0]]}, ONE_PART)
    assert among(alone, [1.0, 0.5]).lifted(np.array([1.0, 0.5], np.float32)).tolist() == [1.0, 0.5]
