"""The samples that a calibration is fitted to, and the pseudo-queries of its banks."""

from pathlib import Path

import numpy as np

from encoders.document import Document, Int8Array, unit_rows
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from tests.query.synthetic import TopicEncoder, filled, page

LANGS = ("de", "fr")


def test_a_large_query_log_leaves_half_of_the_bank_to_the_documents(tmp_path: Path) -> None:
    """The other half is drawn from all of the log; what is taken over counts among it."""
    encoder = TopicEncoder(bias=1.0)
    pages = [page(lang, f"t{at % 60}", at) for lang in LANGS for at in range(200)]
    store = filled(tmp_path, encoder, pages)
    log = [Document(f"{lang}{at}", lang, f"{at:04d} asked") for lang in LANGS for at in range(600)]
    samples = draw_samples(store, encoder, logged_queries=log)
    for lang in LANGS:
        assert samples.sources[lang].count("") == 128
        assert len(samples.bank[lang]) == 256
    again = draw_samples(store, encoder, logged_queries=log, encoded_queries={"de": encoder.encode_queries(log[:400])})
    assert (again.sources["de"].count(""), again.sources["fr"].count("")) == (128, 128)
    few = draw_samples(filled(tmp_path / "few", encoder, pages[:3]), encoder, logged_queries=log)
    assert few.sources["de"].count("") == 253
    numbers = [int(query.content[:4]) for query in log[:600] if _stands(samples.bank["de"], encoder, query)]
    assert len(numbers) == 128
    assert max(numbers) > 500


def _stands(bank: Int8Array, encoder: TopicEncoder, query: Document) -> bool:
    return bool((unit_rows(bank.astype(np.float32)) @ encoder.encode_queries([query])[0]).max() > 0.999)


def test_a_calibration_has_the_samples_means_and_banks(tmp_path: Path) -> None:
    encoder = TopicEncoder(bias=1.0)
    pages = [page(lang, f"t{at}") for lang in LANGS for at in range(50)]
    samples = draw_samples(filled(tmp_path, encoder, pages), encoder)
    made = fit_statistics(samples, "topics")
    vectors = encoder.encode_documents([one for one in pages if one.lang == "de"]).vectors
    assert made.languages["de"].documents == 50
    assert np.linalg.norm(made.mean("document", "de") - vectors.mean(axis=0)) < 0.1
    assert np.linalg.norm(made.mean("document", "de") - made.mean("document", "fr")) > 0.5
    assert (made.languages["de"].bank == samples.bank["de"]).all()
    assert set(made.languages["de"].sources) == {one.doc_id for one in pages if one.lang == "de"}
    assert (made.mates, made.space.name) == (False, "")


def test_a_drawn_pseudo_query_is_its_documents_row_of_the_bank(tmp_path: Path) -> None:
    encoder = TopicEncoder(bias=1.0)
    pages = [page(lang, f"t{at}") for lang in LANGS for at in range(50)]
    samples = draw_samples(filled(tmp_path, encoder, pages), encoder, logged_queries=[Document("q", "de", "asked")])
    drawn = samples.draw(40, 0, LANGS)
    assert len(drawn) == 40
    assert {query.lang for query in drawn} == set(LANGS)
    assert all(samples.sources[query.lang][query.row] == query.doc_id != "" for query in drawn)
    assert {query.lang for query in samples.draw(40, 0, ["fr"])} == {"fr"}
