"""Samples of documents that somebody deletes meanwhile, and drift: only a new kind of document is seen."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document, unit_rows
from encoders.methods.vector_parts import VectorParts
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration_fitting import recalibration as drifting
from query.calibration_fitting.calibration_decision import decide, decide_by_judgements
from query.calibration_fitting.calibration_request import JudgedTopics
from query.calibration_fitting.language_statistics import document_moments, draw_samples, fit_statistics
from query.calibration_fitting.ranking_trial import from_judgements
from query.calibration_fitting.recalibration import changed_hits, drift, with_documents
from query.report.bias import VectorSample
from tests.query.synthetic import DIM, LosingStore, TopicEncoder, filled, page

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


def test_samples_are_drawn_and_it_is_decided_by_what_is_left(store: LosingStore) -> None:
    """A topic whose relevant documents are lost is no observation."""
    samples = draw_samples(store, ENCODER)
    assert store.lost
    assert sum(moments.count for moments in samples.documents.values()) < 2 * TOPICS * len(LANGUAGES)
    assert min(len(bank) for bank in samples.bank.values()) > TOPICS
    lost, store.reads = len(store.lost), 0
    decision = decide(store, samples, MODEL)
    assert len(store.lost) > lost
    assert decision.mates is not None
    topics = [Document(f"t{at}", "de", f"t{at}") for at in range(TOPICS)]
    qrels = [Qrel(topic.doc_id, f"{lang}:{topic.doc_id}:0", 1) for topic in topics for lang in LANGUAGES]
    lost, store.reads = len(store.lost), 0
    by_topics = decide_by_judgements(store, ENCODER, decision, JudgedTopics(topics, qrels), seed=0)
    assert len(store.lost) > lost
    assert by_topics.decided_by == "judgements"
    store.delete([f"{lang}:t{at}:0" for lang in LANGUAGES for at in (1, 2)])
    questions = from_judgements(store, ENCODER, topics, qrels)
    assert len(questions) >= 20
    assert all(question.answers for question in questions)
    assert not {"t1", "t2"} & {question.topic for question in questions}


def test_drift_and_bias_are_of_what_is_left(store: LosingStore) -> None:
    active = fit_statistics(draw_samples(store, ENCODER), MODEL)
    assert drift(store, active).keys() == set(LANGUAGES)
    sample = VectorSample.draw(store, MODEL, active)
    assert sample.corrected is not None
    assert len(sample.langs) == len(sample.raw) == len(sample.corrected)
    store.delete(list(store.ids()))
    assert draw_samples(store, ENCODER).documents == {}
    assert drift(store, active) == {}
    assert changed_hits(store, active, active) == {}


LANGS = ("de", "fr")


def test_a_large_query_log_leaves_half_of_the_bank_to_the_documents(tmp_path: Path) -> None:
    """The other half is drawn from all of the log; what is taken over counts among it."""
    encoder = TopicEncoder(bias=1.0)
    pages = [page(lang, f"t{at % 60}", at) for lang in LANGS for at in range(200)]
    store = filled(tmp_path, encoder, pages)
    log = [Document(f"{lang}{at}", lang, f"{at:04d} asked") for lang in LANGS for at in range(600)]
    samples = draw_samples(store, encoder, logged_queries=log)
    for lang in LANGS:
        assert (samples.sources[lang].count(""), len(samples.bank[lang])) == (128, 256)
    again = draw_samples(store, encoder, logged_queries=log, encoded_queries={"de": encoder.encode_queries(log[:400])})
    assert (again.sources["de"].count(""), again.sources["fr"].count("")) == (128, 128)
    few = draw_samples(filled(tmp_path / "few", encoder, pages[:3]), encoder, logged_queries=log)
    assert few.sources["de"].count("") == 253
    cosines = unit_rows(samples.bank["de"].astype(np.float32)) @ encoder.encode_queries(log[:600]).T
    numbers = np.flatnonzero(cosines.max(axis=0) > 0.999)
    assert len(numbers) == 128
    assert max(numbers) > 500


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedStore:
    """800 documents of each language, about forty topics."""
    pages = [page(lang, f"t{at % 40}", at) for lang in LANGUAGES for at in range(800)]
    return filled(tmp_path_factory.mktemp("drift"), ENCODER, pages)


def calibrated(large: EmbeddedStore) -> Calibration:
    return fit_statistics(draw_samples(large, ENCODER), MODEL)


@pytest.mark.parts
def test_two_samples_of_the_same_documents_hardly_drift(large: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most first tens differ in some document between the samples: by chance. A twentieth of their vectors is kept."""
    assert {len(of_language.sample) for of_language in calibrated(large).languages.values()} == {40}
    monkeypatch.setattr(drifting, "SAMPLE", 400)
    halves = [{lang: large.sample(MODEL, lang, 800, seed=1)[half::2] for lang in LANGUAGES} for half in (0, 1)]
    one, other = (
        with_documents(
            calibrated(large),
            {lang: document_moments(large, MODEL, VectorParts.equal(DIM), ids) for lang, ids in half.items()},
        )
        for half in halves
    )
    assert max([(changed > 0).mean() for changed in drifting.changed_hits(large, one, other).values()]) > 0.3
    assert max(drift(large, one).values()) < 0.15


@pytest.mark.parts
def test_the_largest_languages_are_asked(large: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 queries are for two languages."""
    monkeypatch.setattr(drifting, "QUERIES", 16)
    shutil.copytree(Path(large.path).parent, tmp_path / "more")
    more = [page(lang, f"t{at % 40}", 800 + at) for lang in ("ja", "de") for at in range(40)]
    with closing(filled(tmp_path / "more", ENCODER, more)) as larger:
        assert drift(larger, calibrated(large)).keys() == {"de", "ja"}


@pytest.mark.parts
def test_only_a_new_kind_of_document_is_drift(large: EmbeddedStore, tmp_path: Path) -> None:
    active = calibrated(large)
    shutil.copytree(Path(large.path).parent, tmp_path / "more")
    with closing(EmbeddedStore(tmp_path / "more", "synthetic")) as looked_at:
        assert set(drift(looked_at, active).values()) == {0.0}
        filled(tmp_path / "more", ENCODER, [page("de", "de-minutes", at) for at in range(800)]).close()
        assert drift(looked_at, active)["de"] > 0.25
