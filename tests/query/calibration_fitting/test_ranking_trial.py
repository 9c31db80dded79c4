"""Trials of rankings: who asks what, what is hidden from whom, and when a ranking is better."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.methods.vector_parts import VectorParts
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration_fitting import ranking_trial as trials
from query.calibration_fitting.ranking_trial import FEWEST, Question, Trial, from_judgements, from_mates
from tests.query.calibration_fitting.test_mined_mates import ENCODER, LANGUAGES, MODEL, alone, counterparts, taught
from tests.query.synthetic import calls_of, filled

pytestmark = pytest.mark.parts


def test_judgements_are_counted_by_topics_and_not_by_their_translations(tmp_path: Path) -> None:
    store = filled(tmp_path, ENCODER, counterparts(30, ("de", "fr")))
    topics = [Document(f"q{at}", lang, f"t{at} wanted") for at in range(30) for lang in ("de", "fr", "it", "ja")]
    qrels = [Qrel(f"q{at}", f"{lang}:t{at}:0", 1) for at in range(30) for lang in ("de", "fr")]
    qrels += [Qrel("q1", "de:t2:0", 0), Qrel("q1", "elsewhere", 1)]  # not relevant, and not in the store
    questions = from_judgements(store, ENCODER, topics, qrels)
    assert (len(questions), len({question.topic for question in questions})) == (120, 30)
    for question in questions:
        assert question.answers == {f"{lang}:t{question.topic[1:]}:0" for lang in ("de", "fr")}
        assert not question.hidden
    with pytest.raises(BadInput, match="too few of the topics have a relevant document in the collection"):
        from_judgements(store, ENCODER, topics[: 4 * (FEWEST - 1)], qrels)
    assert np.stack([question.vector for question in questions]) == pytest.approx(ENCODER.encode_queries(topics))


def test_topics_beyond_the_most_are_left_out_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, ENCODER, counterparts(40, ("de",)))
    topics = [Document(f"q{at}", "de", f"t{at} wanted") for at in range(40)]
    qrels = [Qrel(f"q{at}", f"de:t{at}:0", 1) for at in range(40)]
    monkeypatch.setattr(trials, "QUERIES", 25)
    drawn = [[one.topic for one in from_judgements(store, ENCODER, topics, qrels, seed)] for seed in (0, 0, 1)]
    assert len(drawn[0]) == 25
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_pseudo_query_asks_for_its_documents_mates_and_does_not_meet_its_document(tmp_path: Path) -> None:
    _, calibration, found = taught(tmp_path, ENCODER, counterparts(40))
    questions, held_out = from_mates(calibration, found)
    assert len(questions) > 100
    rows, asking = {query.doc_id: query for query in found.queries}, set[str]()
    for question in questions:
        (source,) = [
            doc_id
            for doc_id in question.hidden
            if doc_id[:2] == question.lang
            and {doc_id, *found.mates[doc_id].values()} == {*question.hidden, *question.answers}
        ]
        asking.add(source)
        assert question.lang == rows[source].lang
        vector = calibration.languages[question.lang].bank[rows[source].row]
        assert question.vector == pytest.approx(unit_rows(vector[None].astype(np.float32))[0])
        assert not set(question.answers) & set(question.hidden)
    assert len(asking) == len(questions)
    for lang, statistics in calibration.languages.items():
        left = held_out.languages[lang]
        assert left.sources == tuple(source for source in statistics.sources if source not in asking)
        by_source = dict(zip(statistics.sources, statistics.bank.tolist(), strict=True))
        assert left.bank.tolist() == [by_source[source] for source in left.sources]
        assert np.array_equal(left.means["document"], statistics.means["document"])


@pytest.mark.parametrize(("apart", "share"), [(0, 0.0), (30, 0.5)])
def test_documents_that_stand_alone_have_their_share_of_the_questions(tmp_path: Path, apart: int, share: float) -> None:
    """Of these questions all mates but one are hidden."""
    _, calibration, found = taught(tmp_path, ENCODER, [*counterparts(30), *alone(apart)])
    questions, _ = from_mates(calibration, found)
    single = [question for question in questions if len(question.answers) == 1 and len(question.hidden) > 1]
    with_mates = np.mean([query.doc_id in found.mates for query in found.queries])
    assert with_mates == pytest.approx(1 - share, abs=0.1)
    assert len(single) / len(questions) == pytest.approx(1 - with_mates, abs=0.05)


def test_few_subjects_or_unsure_mates_ask_nothing_and_questions_are_the_same_each_time(tmp_path: Path) -> None:
    _, calibration, few = taught(tmp_path / "few", ENCODER, counterparts(FEWEST - 1))
    assert from_mates(calibration, few) == ([], calibration)
    _, calibration, found = taught(tmp_path / "many", ENCODER, [*counterparts(30), *alone(30)])
    assert from_mates(calibration, replace(found, sure=False)) == ([], calibration)
    one, same, other = (
        [(question.lang, question.topic, question.answers) for question in from_mates(calibration, found, seed)[0]]
        for seed in (0, 0, 1)
    )
    assert one == same != other


def asked(topics: int) -> list[Question]:
    """A German query for each topic, which wants the pages of all languages."""
    queries = [Document("", "de", f"t{at} asked") for at in range(topics)]
    return [
        Question(vector, "de", f"t{at}", {f"{lang}:t{at}:0" for lang in LANGUAGES})
        for at, vector in enumerate(ENCODER.encode_queries(queries))
    ]


def test_values_are_average_precisions_of_topics_however_often_they_are_asked(tmp_path: Path) -> None:
    """What is hidden is not met, and an answer that is not found counts as none."""
    store, calibration, _ = taught(tmp_path, ENCODER, counterparts(40))
    questions = asked(40)
    hidden = [
        replace(question, answers={"fr:" + question.topic + ":0"}, hidden={f"de:{question.topic}:0"})
        for question in questions
    ]
    without = [replace(question, hidden=question.answers) for question in questions]
    (values,), (of_hidden,), (nothing,) = (
        Trial(store, MODEL, given).values([calibration]) for given in (questions, hidden, without)
    )
    assert values.shape == (40,)
    assert 0.5 < values.mean() <= 1
    assert of_hidden.max() == 1
    assert not nothing.any()
    questions = questions[:30]
    hopeless = replace(questions[0], answers={"nowhere"})
    once, often = (Trial(store, MODEL, [*questions, *[hopeless] * count]) for count in (1, 40))
    (value,), (same,) = (trial.values([calibration]) for trial in (once, often))
    assert len(value) == len(same) == 30
    assert value[1:] == pytest.approx(same[1:])
    assert same[0] == pytest.approx(value[0] * 2 / 41)


def test_a_trial_of_several_rankings_reads_documents_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, calibration, _ = taught(tmp_path, ENCODER, counterparts(30))
    rivals = [replace(calibration, mates=mates, balance=balance) for mates in (False, True) for balance in (0.5, 0.75)]
    trial = Trial(store, MODEL, asked(30))
    separate = [trial.values([rival])[0] for rival in rivals]
    searches = calls_of(monkeypatch, EmbeddedStore, "search")
    for one, other in zip(trial.values(rivals), separate, strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    assert len(searches) == 4  # eight questions at once


FIRST = Calibration.none(MODEL, VectorParts.of(ENCODER.spec))
RIVALS = [replace(FIRST, balance=balance) for balance in (0.25, 0.5, 0.75, 1.0, 0.1)]


class Results(Trial):
    """A trial where a calibration gains so much over the first, by its balance."""

    def __init__(self, gains: Mapping[float, FloatArray]) -> None:
        self.gains = gains

    def values(self, calibrations: Sequence[Calibration]) -> list[FloatArray]:
        nothing = np.zeros(20, np.float32)
        return [np.float32(0.5) + self.gains.get(calibration.balance, nothing) for calibration in calibrations]


@pytest.mark.parametrize(("count", "wins"), [(1, True), (5, False)])
def test_rivals_share_the_probability_of_chance(count: int, wins: bool) -> None:
    """The mean gain is two standard errors: above the bound for one rival, and below that for five."""
    trial = Results({0.25: np.float32(2 / 19**0.5) + np.tile(np.array([1.0, -1.0], np.float32), 10)})
    assert trial.better(FIRST, RIVALS[:count]) == (RIVALS[0] if wins else FIRST)


def test_of_several_better_rankings_the_best_is_taken_and_a_worse_or_equal_one_is_not() -> None:
    noise = np.tile(np.array([0.01, -0.01], np.float32), 10)
    trial = Results({0.25: np.float32(0.1) + noise, 0.5: np.float32(0.2) + noise, 0.75: -noise})
    assert trial.better(FIRST, RIVALS) == RIVALS[1]
    assert trial.better(FIRST, []) == FIRST
    worse = Results({0.25: np.full(20, -0.1, np.float32)})
    assert worse.better(FIRST, RIVALS[:1]) == worse.better(FIRST, RIVALS[1:2]) == FIRST
