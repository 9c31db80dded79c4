"""What a probe decides by: which queries, which documents, and what answers them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ir_measures import Qrel

from encoders.document import Document, Int8Array, unit_rows
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration_choice import DEFAULT
from query.calibration.corrected_queries import CorrectedQueries
from query.fitting.evidence import from_concepts, from_judgements, from_titles
from query.fitting.probe import LIFTS, probe
from query.fitting.probe_vectors import ProbeVectors, ReadOnce
from query.fitting.statistics import CalibrationSamples, draw_samples, fit_statistics
from query.ranking.search_choice import SearchChoice
from tests.query.synthetic import TopicEncoder, filled, page

MODEL = TopicEncoder.spec.model


def collection(folder: Path, documents: Sequence[Document]) -> tuple[EmbeddedStore, CalibrationSamples]:
    encoder = TopicEncoder(bias=1.0)
    store = filled(folder, encoder, documents)
    return store, draw_samples(store, encoder)


def test_documents_of_one_concept_answer_each_other(tmp_path: Path) -> None:
    pages = [page(lang, f"t{at}", concept=f"t{at}") for lang in ("de", "fr", "ja") for at in range(30)]
    store, samples = collection(tmp_path, pages)
    found = from_concepts(store, MODEL, samples)
    assert found is not None
    assert (found.kind, len(set(found.topics))) == ("concepts", 30)
    for topic, doc_ids in zip(found.topics, found.relevant, strict=True):
        assert doc_ids == {f"{lang}:{topic}:0" for lang in ("de", "fr", "ja")}


def test_a_large_query_log_leaves_titles_to_decide_by(tmp_path: Path) -> None:
    """Half of the bank is what was asked, drawn from all of the log, and what is taken over counts among it."""
    encoder, langs = TopicEncoder(bias=1.0), ("de", "fr")
    pages = [page(lang, f"t{at % 60}", at, concept=f"t{at % 60}") for lang in langs for at in range(200)]
    store = filled(tmp_path, encoder, pages)
    log = [Document(f"{lang}{at}", lang, f"{at:04d} asked") for lang in langs for at in range(600)]
    samples = draw_samples(store, encoder, logged_queries=log)
    assert from_concepts(store, MODEL, samples) is not None
    for lang in langs:
        assert samples.sources[lang].count("") == 128
        assert len(samples.bank[lang]) == 256
    again = draw_samples(store, encoder, logged_queries=log, encoded_queries={"de": encoder.encode_queries(log[:400])})
    assert (again.sources["de"].count(""), again.sources["fr"].count("")) == (128, 128)
    assert (
        draw_samples(filled(tmp_path / "few", encoder, pages[:3]), encoder, logged_queries=log).sources["de"].count("")
        == 253
    )
    numbers = [int(query.content[:4]) for query in log[:600] if _stands(samples.bank["de"], encoder, query)]
    assert len(numbers) == 128
    assert max(numbers) > 500


def _stands(bank: Int8Array, encoder: TopicEncoder, query: Document) -> bool:
    return bool((unit_rows(bank.astype(np.float32)) @ encoder.encode_queries([query])[0]).max() > 0.999)


def test_a_category_is_no_concept(tmp_path: Path) -> None:
    """Two values on 40 documents of each language; what answers a title is then its own document."""
    pages = [page(lang, f"t{at}", concept=("news", "sport")[at % 2]) for lang in ("de", "fr") for at in range(40)]
    store, samples = collection(tmp_path, pages)
    assert from_concepts(store, MODEL, samples) is None
    found = from_titles(store, MODEL, samples)
    assert found is not None
    choice, table = probe(store, samples, MODEL, found)
    assert choice in {one.choice for one in table}


def test_all_documents_of_a_concept_answer(tmp_path: Path) -> None:
    """Twelve documents a concept and language."""
    pages = [
        page(lang, f"t{at}", number, concept=at) for lang in ("de", "fr") for at in range(25) for number in range(12)
    ]
    store, samples = collection(tmp_path, pages)
    found = from_concepts(store, MODEL, samples)
    assert found is not None
    for topic, doc_ids in zip(found.topics, found.relevant, strict=True):
        assert doc_ids == {one.doc_id for one in pages if one.doc_id.split(":")[1] == f"t{topic}"}


def test_concepts_of_one_language_alone_say_nothing_of_languages(tmp_path: Path) -> None:
    pages = [page("de", f"t{at}", number, concept=at) for at in range(30) for number in range(2)]
    pages += [page("fr", f"t{at}") for at in range(30)]
    store, samples = collection(tmp_path, pages)
    assert from_concepts(store, MODEL, samples) is None


def test_a_title_is_answered_by_the_rest_of_its_document(tmp_path: Path) -> None:
    pages = [page(lang, f"t{at}") for lang in ("de", "fr") for at in range(30)]
    store, samples = collection(tmp_path, pages)
    found = from_titles(store, MODEL, samples)
    assert found is not None
    for doc_id, doc_ids in zip(found.topics, found.relevant, strict=True):
        assert doc_ids == {doc_id}
        rest = found.rests[doc_id]
        (passages,) = store.passages(MODEL, [doc_id])
        assert rest.vector @ passages.unit_vectors()[1:].sum(axis=0) > 0
        assert abs(np.linalg.norm(rest.vector) - 1) < 1e-5
        assert not np.allclose(rest.vector, store.vectors(MODEL, [doc_id])[0])
        assert len(rest.passages.vectors) == len(passages.vectors) - 1


def test_where_all_windows_repeat_the_title_a_title_asks_only_for_counterparts(tmp_path: Path) -> None:
    pages = [page(lang, f"t{at}", concept=f"t{at}") for lang in ("de", "fr") for at in range(60)]
    encoder = TopicEncoder(bias=1.0)
    encoder.spec = replace(encoder.spec, titled=True)
    store = filled(tmp_path, encoder, pages)
    samples = draw_samples(store, encoder)
    titles = {query.doc_id for query in samples.draw(1_000) if query.repeated}
    assert len(titles) == 60  # of the other documents, the first sentence asks
    found = from_concepts(store, MODEL, samples)
    assert found is not None
    for source, doc_ids in zip(found.sources, found.relevant, strict=True):
        assert (source in doc_ids) == (source in found.rests) == (source not in titles)
    alone = from_titles(store, MODEL, samples)
    assert alone is not None
    assert titles.isdisjoint(alone.sources)


def test_a_document_without_a_rest_is_not_met_by_its_own_opening(tmp_path: Path) -> None:
    pages = [page(lang, f"t{at}", sentences=3 if at else 0, concept=at) for lang in ("de", "fr") for at in range(25)]
    pages = [Document(one.doc_id, one.lang, one.text or one.title, "", one.fields) for one in pages]
    pages = [one if one.text.count("\n") else Document(one.doc_id, one.lang, one.text, "", one.fields) for one in pages]
    store, samples = collection(tmp_path, pages)
    found = from_concepts(store, MODEL, samples)
    assert found is not None
    short = [at for at, topic in enumerate(found.topics) if topic == "0"]
    assert short
    for at in short:
        own = f"{found.query_langs[at]}:t0:0"
        assert found.sources[at] == own
        assert own not in found.relevant[at]
        assert own not in found.rests
        lang = found.query_langs[at]
        calibration = fit_statistics(samples, MODEL)
        asked = ProbeVectors(store, calibration, SearchChoice.of(calibration), found, [at], ReadOnce())
        nearest, _ = asked.search(CorrectedQueries(found.queries[[at]]), [lang], 50, None, None)
        assert own not in nearest[0][1][0].doc_ids


def test_judgements_are_counted_by_topics_and_not_by_their_translations(tmp_path: Path) -> None:
    encoder = TopicEncoder(bias=1.0)
    store, _ = collection(tmp_path, [page(lang, f"t{at}") for lang in ("de", "fr") for at in range(30)])
    topics = [Document(f"q{at}", lang, f"t{at} wanted") for at in range(30) for lang in ("de", "fr", "it", "ja")]
    qrels = [Qrel(f"q{at}", f"{lang}:t{at}:0", 1) for at in range(30) for lang in ("de", "fr")]
    qrels += [Qrel("q1", "de:t2:0", 0), Qrel("q1", "elsewhere", 1)]  # not relevant, and not in the store
    found = from_judgements(store, encoder, topics, qrels)
    assert found is not None
    assert (len(found.topics), len(set(found.topics))) == (120, 30)
    for topic, doc_ids in zip(found.topics, found.relevant, strict=True):
        assert doc_ids == {f"{lang}:t{topic[1:]}:0" for lang in ("de", "fr")}
    assert from_judgements(store, encoder, topics[: 4 * 19], qrels) is None


def test_a_probe_by_judgements_keeps_a_topics_translations_in_one_half(tmp_path: Path) -> None:
    """A topic in many languages counts once: its 40 copies don't outvote the others."""
    encoder = TopicEncoder(bias=1.0)
    store, samples = collection(tmp_path, [page(lang, f"t{at}") for lang in ("de", "fr") for at in range(30)])
    topics = [Document(f"q{at}", "de", f"t{at} wanted") for at in range(30)]
    qrels = [Qrel(f"q{at}", f"fr:t{at or 15}:0", 1) for at in range(30)]  # q0 finds no answer
    copies = [Document("q0", "de", f"t0 wanted {copy}") for copy in range(40)]
    tables = []
    for asked in (topics, [*topics, *copies]):
        found = from_judgements(store, encoder, asked, qrels)
        assert found is not None
        tables.append({one.choice: one for one in probe(store, samples, MODEL, found)[1]})
    start = replace(DEFAULT, lift=LIFTS[-1], second_look=True)
    few, many = (table[start] for table in tables)
    assert few.value < few.held_out - 0.02
    assert many.held_out == pytest.approx(few.held_out, abs=1e-6)
    assert many.value == pytest.approx(few.value, abs=0.05)
