"""The probe: what it takes for bias, what it chooses, and neighbourhoods without the query itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import Encoder, FloatArray
from encoders.methods.combined import Combined
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice, TriedChoice
from query.calibration.margin import neighbourhood_without
from query.calibration.summary import Separability
from query.fitting.calibration_decision import by_evidence
from query.fitting.evidence import from_concepts, from_titles
from query.fitting.probe import FEEDBACKS, LIFTS, probe
from query.fitting.separability import threshold
from query.fitting.statistics import draw_samples
from tests.query.synthetic import TopicEncoder, filled, page

LANGUAGES = ("de", "en", "fr", "ja", "ru")


def probed(
    folder: Path, encoder: Encoder, languages: int, *, concepts: bool
) -> tuple[CalibrationChoice, list[TriedChoice]]:
    """Documents that are translations of each other, or else each of a topic of its own."""
    count = 50 if concepts else 120
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
    assert chosen.balance == 0
    raw = next(one for one in table if one.choice.balance == 0)
    assert raw.own_language == pytest.approx(1 / languages, abs=0.08)


@pytest.mark.parametrize("languages", [2, 5])
def test_by_titles_a_biased_encoder_is_balanced(tmp_path: Path, languages: int) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias=1.5), languages, concepts=False)
    raw = next(one for one in table if one.choice.balance == 0)
    assert raw.own_language > 0.9
    assert chosen.balance >= 0.5


def test_by_titles_languages_that_cannot_be_told_apart_are_not_balanced(tmp_path: Path) -> None:
    encoder = TopicEncoder(bias=1.5)
    store = filled(tmp_path, encoder, [page(lang, f"{lang}{at}") for lang in LANGUAGES for at in range(60)])
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
    values = {one.choice: one for one in table}
    assert values[chosen].held_out > values[replace(chosen, weights=())].held_out


def test_the_choice_is_one_of_the_table_and_marked(tmp_path: Path) -> None:
    chosen, table = probed(tmp_path, TopicEncoder(bias=1.0), 2, concepts=True)
    assert [one.choice for one in table if one.chosen] == [chosen]
    assert replace(DEFAULT, lift=LIFTS[-1], feedback=FEEDBACKS[-1]) in {one.choice for one in table}


def _oracle(near: FloatArray, rows: list[int], k: int) -> FloatArray:
    means = []
    for row in rows:
        rest = near if row < 0 else np.delete(near, row, axis=1)
        means.append([np.mean(sorted(one)[-k:]) if rest.shape[1] else 0.0 for one in rest])
    return np.array(means, dtype=np.float32)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 4), st.integers(0, 999))
def test_a_neighbourhood_without_the_query_itself(documents: int, bank: int, k: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    near = chance.integers(-20, 20, (documents, bank)).astype(np.float32)
    rows = [-1, *range(bank)]
    found = neighbourhood_without(near, np.array(rows), k)
    assert found == pytest.approx(_oracle(near, rows, k), abs=1e-4)
