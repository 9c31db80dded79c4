"""The probe: what it takes for bias, and what it chooses."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Progress
from encoders.document import Encoder, FloatArray
from encoders.methods.combined import Combined
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration_choice import DEFAULT, USUAL_MIX, CalibrationChoice, OwnLanguageShares, TriedChoice
from query.calibration.summary import Separability
from query.fitting.calibration_decision import by_evidence
from query.fitting.evidence import Evidence, from_concepts, from_titles
from query.fitting.probe import LIFTS, MIXES, UNBALANCED, _by_neighbours, _by_relevance, _Trial, probe
from query.fitting.separability import threshold
from query.fitting.statistics import CalibrationSamples, draw_samples
from query.ranking.hits import Ranking
from tests.query.synthetic import TopicEncoder, filled, page

LANGUAGES = ("de", "en", "fr", "ja", "ru")


def probed(
    folder: Path, encoder: Encoder, languages: int, *, concepts: bool
) -> tuple[CalibrationChoice, list[TriedChoice]]:
    """Documents that are translations of each other, or else each of a topic of its own."""
    count = 36 if concepts else 40
    pages = [
        page(lang, f"t{at}", concept=at) if concepts else page(lang, f"{lang}{at}")
        for lang in LANGUAGES[:languages]
        for at in range(count)
    ]
    store = filled(folder, encoder, pages)
    samples = draw_samples(store, encoder)
    found = (from_concepts if concepts else from_titles)(store, encoder.spec.model, samples)
    assert found is not None
    return probe(store, samples, encoder.spec.model, found)


@pytest.mark.parametrize("languages", [2, 3, 4, 5])
def test_by_titles_an_encoder_without_bias_is_left_as_it_is(tmp_path: Path, languages: int) -> None:
    """Its own document is always among a title's first hits, and says nothing of languages."""
    chosen, table = probed(tmp_path, TopicEncoder(bias=0.0), languages, concepts=False)
    assert chosen == UNBALANCED
    raw = next(one for one in table if one.choice == replace(UNBALANCED, lift=0.0, second_look=False))
    assert raw.own_language == pytest.approx(1 / languages, abs=0.08)


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_by_titles_the_ends_of_the_dial_are_tried_too(tmp_path: Path, bias: float) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias), 3, concepts=False)
    shares = OwnLanguageShares.of(table, 3)
    assert shares is not None
    assert {0.0, chosen.balance, 1.0} <= shares.by_balance.keys()
    assert shares.by_balance[chosen.balance] == shares.reached
    assert shares.by_balance[0.0] > shares.by_balance[1.0]


@pytest.mark.parametrize("languages", [2, 5])
def test_by_titles_a_biased_encoder_is_balanced(tmp_path: Path, languages: int) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias=1.5), languages, concepts=False)
    raw = next(one for one in table if one.choice == replace(UNBALANCED, lift=0.0, second_look=False))
    assert raw.own_language > 0.9
    assert chosen == DEFAULT


def test_by_titles_languages_that_cannot_be_told_apart_are_not_balanced(tmp_path: Path) -> None:
    encoder = TopicEncoder(bias=1.5)
    store = filled(tmp_path, encoder, [page(lang, f"{lang}{at}") for lang in LANGUAGES for at in range(30)])
    samples = draw_samples(store, encoder)
    found = from_titles(store, encoder.spec.model, samples)
    assert found is not None
    told = [
        by_evidence(
            store, samples, encoder.spec.model, found, Separability(right, 5, threshold((80,) * 5)), "default"
        ).choice
        for right in (0.2, 0.9)
    ]
    assert told[0].balance == 0
    assert told[1].balance >= 0.5


def test_by_concepts_a_biased_encoder_is_balanced(tmp_path: Path) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias=4, noise=3), 3, concepts=True)
    values = {one.choice: one for one in table}
    assert chosen.balance >= 0.5
    assert values[chosen].held_out > 1.5 * values[replace(chosen, balance=0.0)].held_out


def test_by_concepts_an_encoder_without_bias_loses_nothing(tmp_path: Path) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias=0.0), 3, concepts=True)
    values = {one.choice: one for one in table}
    assert values[chosen].held_out > max(one.held_out for one in table) - 0.02


@pytest.mark.parts
@pytest.mark.parametrize("useless", [0, 1])
def test_a_part_that_tells_nothing_gets_little_weight(tmp_path: Path, useless: int) -> None:
    parts = [TopicEncoder(0.0, 1.5, "good"), TopicEncoder(0.0, 50.0, "noise")]
    chosen, table = probed(tmp_path, Combined(parts[::-1] if useless == 0 else parts), 3, concepts=True)
    assert chosen.weights[useless] <= 0.3
    held_out = next(one.held_out for one in table if one.chosen)
    assert held_out > max(one.held_out for one in table if one.choice.weights == ())


def test_the_choice_is_one_of_the_table_and_marked(tmp_path: Path) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias=1.0), 2, concepts=True)
    assert [one.choice for one in table if one.chosen] == [chosen]
    assert replace(DEFAULT, lift=LIFTS[-1], second_look=True) in {one.choice for one in table}


def evidence_of(folder: Path, encoder: Encoder) -> tuple[EmbeddedStore, CalibrationSamples, Evidence]:
    """Documents of two languages that are translations of each other, and the evidence of their concepts."""
    store = filled(folder, encoder, [page(lang, f"t{at}", concept=at) for lang in LANGUAGES[:2] for at in range(36)])
    samples = draw_samples(store, encoder)
    evidence = from_concepts(store, encoder.spec.model, samples)
    assert evidence is not None
    return store, samples, evidence


@pytest.mark.parametrize("repeated", [False, True])
def test_only_judgements_decide_how_much_titles_count(tmp_path: Path, repeated: bool) -> None:
    """Other evidence has titles as queries, which find the titles of their counterparts too easily."""
    encoder = TopicEncoder(bias=1.0)
    encoder.spec = replace(encoder.spec, titled=repeated)
    store, samples, by_concepts = evidence_of(tmp_path, encoder)
    tried = {
        evidence.kind: {trial.choice.mix for trial in probe(store, samples, encoder.spec.model, evidence)[1]}
        for evidence in (by_concepts, replace(by_concepts, kind="judgements"))
    }
    assert tried == {"concepts": {USUAL_MIX}, "judgements": set(MIXES)}


def test_titles_that_only_counterparts_may_answer_do_not_decide_for_more_balance(tmp_path: Path) -> None:
    """Such titles want only documents in other languages: more balance would always win."""
    encoder = TopicEncoder(bias=1.0)
    tried = {}
    for repeated in (False, True):
        encoder.spec = replace(encoder.spec, titled=repeated)
        store, samples, by_concepts = evidence_of(tmp_path / str(repeated), encoder)
        for evidence in (by_concepts, replace(by_concepts, kind="judgements")):
            table = probe(store, samples, encoder.spec.model, evidence)[1]
            tried[repeated, evidence.kind] = 0.875 in {trial.choice.balance for trial in table}
    assert tried == {
        (False, "concepts"): True,
        (False, "judgements"): True,
        (True, "concepts"): False,
        (True, "judgements"): True,
    }


@pytest.fixture
def trial(tmp_path: Path) -> _Trial:
    encoder = TopicEncoder(bias=1.0)
    store, samples, evidence = evidence_of(tmp_path, encoder)
    return _Trial(store, samples, encoder.spec.model, evidence, Progress())


def results(trial: _Trial, values: Callable[[CalibrationChoice], FloatArray], own_language: float = 0.9) -> None:
    """Let each choice that the trial tries have these (topics,) values."""

    def tried(choices: Sequence[CalibrationChoice]) -> list[tuple[TriedChoice, FloatArray]]:
        of_topics = [values(choice) for choice in choices]
        means = [(float(topics[::2].mean()), float(topics[1::2].mean())) for topics in of_topics]
        return [
            (TriedChoice(choice, *pair, own_language), topics)
            for choice, pair, topics in zip(choices, means, of_topics, strict=True)
        ]

    trial._try = tried  # type: ignore[method-assign]


RIVALS = [replace(DEFAULT, balance=balance) for balance in (0.0, 0.25, 0.5, 0.625, 1.0)]


@pytest.mark.parametrize(("half", "wins"), [(0, True), (1, False)])
def test_topics_that_do_not_decide_have_no_say(trial: _Trial, half: int, wins: bool) -> None:
    gains = np.zeros(40, np.float32)
    gains[half::2] = 0.5
    results(trial, lambda choice: gains if choice == RIVALS[0] else np.zeros_like(gains))
    assert trial.better(DEFAULT, RIVALS[:1]) == (RIVALS[0] if wins else DEFAULT)


@pytest.mark.parametrize(("count", "wins"), [(1, True), (5, False)])
def test_rivals_share_the_probability_of_chance(trial: _Trial, count: int, wins: bool) -> None:
    """The mean gain is two standard errors: above the bound for one rival, and below that for five."""
    gains = np.zeros(40, np.float32)
    gains[::2] = 2 / 19**0.5 + np.tile([1.0, -1.0], 10)
    results(trial, lambda choice: gains if choice == RIVALS[0] else np.zeros_like(gains))
    assert trial.better(DEFAULT, RIVALS[:count]) == (RIVALS[0] if wins else DEFAULT)


def test_what_is_reported_is_of_topics_that_decided_nothing(trial: _Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Trial, "_values", lambda *_: np.tile(np.array([1.0, 0.25], np.float32), 20))
    assert (trial.of(DEFAULT).value, trial.of(DEFAULT).held_out) == (1.0, 0.25)


def test_a_topic_counts_once_however_often_it_is_asked(trial: _Trial) -> None:
    """Three queries of a topic find its answer; the other topics' queries find nothing."""
    topics = ["q0", "q0", "q0", *(f"q{number}" for number in range(1, 20))]
    evidence = replace(trial._evidence, topics=topics, relevant=[frozenset({"a"})] * len(topics))
    again = _Trial(trial._store, trial._samples, trial._model, evidence, Progress())
    found = Ranking(["a"], ["de"], np.ones(1, np.float32))
    nothing = Ranking(["b"], ["de"], np.ones(1, np.float32))
    values = again._values({query: found if query < 3 else nothing for query in range(len(topics))})
    assert values.tolist() == [1.0, *([0.0] * 19)]


def test_by_titles_a_balance_that_loses_titles_is_not_taken(trial: _Trial) -> None:
    lost = {0.75: 0.03, 0.625: 0.03}
    results(trial, lambda choice: np.full(40, 0.5 - lost.get(choice.balance, 0.0), np.float32))
    assert _by_neighbours(trial).balance == 0.5


@pytest.mark.parametrize("gain", [0.0, 0.1])
def test_a_second_look_that_finds_no_more_is_left_out(trial: _Trial, gain: float) -> None:
    results(trial, lambda choice: np.full(40, 0.5 + gain * choice.second_look, np.float32))
    assert _by_relevance(trial).second_look == bool(gain)
