"""The common space acts on queries, once for each target language, and exactly as its formula says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from encoders.document import Float64Array, FloatArray, unit_rows
from query.calibration.common_space import CommonSpaceCalibration
from query.calibration.mapped_calibration import read_calibration
from query.fitting.statistics import fit_statistics
from tests.query.calibration.test_calibration import DIM, samples, some

LANGUAGES = {"de": slice(0, 4), "fr": slice(4, 9), "sw": slice(9, 11)}


def maps() -> dict[str, Float64Array]:
    chance = np.random.default_rng(3)
    return {lang: np.eye(DIM) + 0.2 * chance.standard_normal((DIM, DIM)) for lang in ("de", "fr")}


def calibration(lang: str) -> CommonSpaceCalibration:
    """The calibration for queries of a language; Swahili has statistics and no map."""
    statistics = fit_statistics(samples({"de": 40, "fr": 40, "sw": 40}), "m")
    made = CommonSpaceCalibration.on(statistics, maps()).for_queries_in(lang)
    assert isinstance(made, CommonSpaceCalibration)
    return made


def transcribed(lang: str, documents: FloatArray, queries: FloatArray) -> FloatArray:
    """(q W_a W_bᵀ)·d for each query and document, the mapped query scaled to unit length."""
    weights = {name: of_lang.astype(np.float16).astype(np.float64) for name, of_lang in maps().items()}
    result = np.zeros((len(documents), len(queries)))
    for target, rows in LANGUAGES.items():
        for row in range(rows.start, rows.stop):
            for column, query in enumerate(queries.astype(np.float64)):
                asked = query
                if target != lang and {target, lang} <= weights.keys():
                    mapped = query @ weights[lang] @ weights[target].T
                    asked = mapped / np.linalg.norm(mapped)
                result[row, column] = documents[row] @ asked
    return result.astype(np.float32)


def test_queries_take_the_maps_of_both_languages() -> None:
    documents, queries = some(11), some(3, 2)
    for lang in ("de", "fr", "sw"):
        cosines = calibration(lang).cosines(documents, LANGUAGES, queries)
        assert np.allclose(cosines, transcribed(lang, documents, queries), atol=1e-5)


def test_without_centring_nothing_is_mapped() -> None:
    documents, queries = some(11), some(3, 2)
    made = calibration("de")
    assert np.allclose(made.cosines(documents, LANGUAGES, queries, 0.0), documents @ queries.T, atol=1e-6)
    assert np.array_equal(made.queries_for_store(queries, "fr", 0.0), queries)


def test_the_store_finds_what_is_compared() -> None:
    """The inner product of raw documents with the query for kNN differs from the compared one by a constant."""
    documents, queries = some(5), some(1, 2)
    made = calibration("de")
    centred = documents - made.component("document", "fr").mean
    compared = made.cosines(centred, {"fr": slice(0, 5)}, queries)[:, 0]
    assert np.ptp(documents @ made.queries_for_store(queries, "fr")[0] - compared) < 1e-5


def test_pseudo_queries_are_mapped_as_queries_are_and_kept() -> None:
    documents, made = some(11), calibration("de")
    bank = made.bank("de")
    for _ in range(2):  # the second time from memory
        cosines = made.cosines(documents, LANGUAGES, bank.vectors, 1.0, bank.mapped)
        assert np.allclose(cosines, transcribed("de", documents, bank.vectors), atol=1e-5)
        assert bank.mapped.keys() == LANGUAGES.keys()


def test_it_is_stored_and_read_with_its_id() -> None:
    made = calibration("de")
    again = read_calibration(made.to_bytes())
    assert again.id == made.id
    bound = again.for_queries_in("de")
    documents, queries = some(11), some(3, 2)
    assert np.array_equal(bound.cosines(documents, LANGUAGES, queries), made.cosines(documents, LANGUAGES, queries))
    assert replace(made, maps={}).id != made.id


def test_a_choice_keeps_the_space() -> None:
    made = calibration("de")
    changed = made.with_choice(replace(made.choice, balance=1.0))
    assert isinstance(changed, CommonSpaceCalibration)
    assert changed.maps is made.maps


def test_a_zero_query_stays_zero() -> None:
    nothing = np.zeros((1, DIM), np.float32)
    assert not calibration("de").cosines(unit_rows(some(11)), LANGUAGES, nothing).any()
