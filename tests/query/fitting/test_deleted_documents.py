"""Documents that somebody deletes while a collection is calibrated are left out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document
from query.calibration.calibration_choice import DEFAULT
from query.fitting.bias import VectorSample
from query.fitting.drift import changed_hits, drift
from query.fitting.evidence import Evidence, from_concepts, from_judgements, from_titles
from query.fitting.probe import probe
from query.fitting.statistics import CalibrationSamples, draw_samples, fit_statistics
from query.ranking.fair_ranker import FairRanker
from query.ranking.search_choice import SearchChoice
from tests.query.synthetic import LosingStore, TopicEncoder, filled, page

ENCODER = TopicEncoder(bias=1.0, noise=1.0)
MODEL = ENCODER.spec.model
LANGUAGES = ("de", "fr", "ja")
TOPICS = 40


@pytest.fixture
def store(tmp_path: Path) -> Any:
    pages = [
        page(lang, f"t{at}", number, concept=at) for lang in LANGUAGES for at in range(TOPICS) for number in (0, 1)
    ]
    filled(tmp_path, ENCODER, pages).close()
    with closing(LosingStore(tmp_path, "synthetic")) as losing:
        yield losing


def test_samples_are_drawn_of_what_is_left(store: LosingStore) -> None:
    samples = draw_samples(store, ENCODER)
    assert store.lost
    assert sum(moments.count for moments in samples.documents.values()) < 2 * TOPICS * len(LANGUAGES)
    assert min(len(bank) for bank in samples.bank.values()) > TOPICS


def judged(store: LosingStore, _: CalibrationSamples) -> Evidence | None:
    topics = [Document(f"t{at}", "de", f"t{at}") for at in range(TOPICS)]
    qrels = [Qrel(topic.doc_id, f"{lang}:{topic.doc_id}:0", 1) for topic in topics for lang in LANGUAGES]
    return from_judgements(store, ENCODER, topics, qrels)


@pytest.mark.parametrize(
    "gather",
    [
        judged,
        lambda store, samples: from_concepts(store, MODEL, samples),
        lambda store, samples: from_titles(store, MODEL, samples),
    ],
    ids=["judgements", "concepts", "titles"],
)
def test_evidence_is_of_what_is_left(
    store: LosingStore, gather: Callable[[LosingStore, CalibrationSamples], Evidence | None], quick_probe: None
) -> None:
    samples = draw_samples(store, ENCODER)
    lost, store.reads = len(store.lost), 0
    found = gather(store, samples)
    assert found is not None
    assert len(found.queries) == len(found.topics) == len(found.relevant) == len(found.sources)
    assert all(found.relevant)
    probe(store, samples, MODEL, found)
    assert len(store.lost) > lost


def test_every_judged_document_may_be_lost(store: LosingStore) -> None:
    """A topic without a relevant document is no observation."""
    store.delete([f"{lang}:t{at}:0" for lang in LANGUAGES for at in (1, 2)])
    found = judged(store, draw_samples(store, ENCODER))
    assert found is not None
    assert not {"t1", "t2"} & set(found.topics)


def test_drift_and_bias_are_of_what_is_left(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL).with_choice(DEFAULT)
    assert drift(store, active).keys() == set(LANGUAGES)
    sample = VectorSample.draw(store, MODEL, active)
    assert sample.corrected is not None
    assert len(sample.langs) == len(sample.raw) == len(sample.corrected)


def test_a_ranking_leaves_out_what_is_lost_while_it_is_made(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL).with_choice(DEFAULT)
    queries = ENCODER.encode_queries([Document("q", "de", f"t{at}") for at in range(3)])
    lost, store.reads = len(store.lost), 0
    choice = replace(SearchChoice.of(active), second_look=True)
    rankings = FairRanker(store, active, choice).rank(queries, "de", LANGUAGES, 100)
    assert len(store.lost) > lost
    assert all(len(ranking.doc_ids) > 50 for ranking in rankings)
    assert not {doc_id for ranking in rankings for doc_id in ranking.doc_ids} & set(store.lost)
    assert all(np.isfinite(ranking.scores).all() for ranking in rankings)


def test_a_collection_emptied_meanwhile_has_no_drift(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL).with_choice(DEFAULT)
    store.delete(list(store.ids()))
    assert draw_samples(store, ENCODER).documents == {}
    assert drift(store, active) == {}
    assert changed_hits(store, active, active) == {}
