"""Documents that somebody deletes while a collection is calibrated are left out."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document
from query.calibration_fitting.calibration_decision import decide, decide_by_judgements
from query.calibration_fitting.calibration_request import JudgedTopics
from query.calibration_fitting.drift import changed_hits, drift
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.calibration_fitting.ranking_trial import from_judgements
from query.ranking.fair_ranker import FairRanker
from query.report.bias import VectorSample
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


def judged() -> JudgedTopics:
    topics = [Document(f"t{at}", "de", f"t{at}") for at in range(TOPICS)]
    qrels = [Qrel(topic.doc_id, f"{lang}:{topic.doc_id}:0", 1) for topic in topics for lang in LANGUAGES]
    return JudgedTopics(topics, qrels)


def test_it_is_decided_by_what_is_left(store: LosingStore) -> None:
    samples = draw_samples(store, ENCODER)
    lost, store.reads = len(store.lost), 0
    decision = decide(store, samples, MODEL)
    assert len(store.lost) > lost
    assert decision.mates is not None
    lost, store.reads = len(store.lost), 0
    by_topics = decide_by_judgements(store, ENCODER, decision, judged(), seed=0)
    assert len(store.lost) > lost
    assert by_topics.decided_by == "judgements"


def test_every_judged_document_may_be_lost(store: LosingStore) -> None:
    """A topic without a relevant document is no observation."""
    store.delete([f"{lang}:t{at}:0" for lang in LANGUAGES for at in (1, 2)])
    topics = judged()
    questions = from_judgements(store, ENCODER, topics.topics, topics.qrels)
    assert len(questions) >= 20
    assert all(question.answers for question in questions)
    assert not {"t1", "t2"} & {question.topic for question in questions}


def test_drift_and_bias_are_of_what_is_left(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL)
    assert drift(store, active).keys() == set(LANGUAGES)
    sample = VectorSample.draw(store, MODEL, active)
    assert sample.corrected is not None
    assert len(sample.langs) == len(sample.raw) == len(sample.corrected)


def test_a_ranking_leaves_out_what_is_lost_while_it_is_made(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL)
    queries = ENCODER.encode_queries([Document("q", "de", f"t{at}") for at in range(3)])
    lost, store.reads = len(store.lost), 0
    rankings = FairRanker(store, replace(active, mates=True)).rank(queries, "de", LANGUAGES, 100)
    assert len(store.lost) > lost
    assert all(len(ranking.doc_ids) > 50 for ranking in rankings)
    assert not {doc_id for ranking in rankings for doc_id in ranking.doc_ids} & set(store.lost)
    assert all(np.isfinite(ranking.scores).all() for ranking in rankings)


def test_a_collection_emptied_meanwhile_has_no_drift(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL)
    store.delete(list(store.ids()))
    assert draw_samples(store, ENCODER).documents == {}
    assert drift(store, active) == {}
    assert changed_hits(store, active, active) == {}
