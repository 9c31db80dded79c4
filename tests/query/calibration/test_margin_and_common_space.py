"""What a comparison is made of: the margin, and the common space, which acts on queries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import Float64Array, FloatArray, unit_rows
from query.calibration import margin
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import PLAIN_SPACE, CommonSpace
from query.calibration_fitting.language_statistics import fit_statistics
from tests.query.calibration.test_calibration import DIM, samples, some


@given(st.lists(st.floats(0.03125, 1.0, width=32), min_size=1, max_size=12), st.integers(1, 15))
def test_a_neighbourhood_is_the_mean_of_the_k_largest(cosines: list[float], k: int) -> None:
    expected = np.mean(sorted(cosines, reverse=True)[:k])
    assert margin.neighbourhood(np.array([cosines], dtype=np.float32), k)[0] == pytest.approx(expected, rel=1e-5)


@given(st.lists(st.sampled_from((0, 1, 2, 5, 5, 5)), min_size=1, max_size=8), st.integers(0, 999))
def test_languages_are_compared_at_once_as_one_after_the_other(lengths: list[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    ends = np.cumsum(lengths).tolist()
    languages = [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]
    cosines = (chance.integers(-5, 5, (3, ends[-1])) / 8).astype(np.float32)  # with ties
    cosines[chance.random(cosines.shape) < 0.2] = -np.inf
    means = margin.language_neighbourhoods(cosines, languages)
    best = margin.best_of_languages(cosines, languages)
    for span in languages:
        for query, row in enumerate(cosines[:, span]):
            if len(row):
                np.testing.assert_array_equal(
                    means[query, span], np.repeat(margin.neighbourhood(row[None], margin.NEIGHBOURS), len(row))
                )
            order = [
                column for column in np.argsort(-row, kind="stable")[: margin.NEIGHBOURS] if np.isfinite(row[column])
            ]
            assert np.flatnonzero(best[query, span]).tolist() == sorted(order)


@given(*[st.floats(-1, 1, width=32)] * 3, st.floats(0, 1))
def test_a_margin_is_the_papers_and_always_a_number(cosine: float, fwd: float, bwd: float, beta: float) -> None:
    cosines, ahead, behind = (np.array([value], dtype=np.float32) for value in (cosine, fwd, bwd))
    score = margin.margin(cosines, ahead, behind, beta)[0]
    assert np.isfinite(score)
    assert abs(score) <= abs(cosine) / margin.FLOOR + 1e-5
    if min(fwd, bwd) >= 0.125:
        for power in (0.0, 0.5, 1.0):
            expected = cosine / ((fwd + bwd) / 2) ** power
            assert margin.margin(cosines, ahead, behind, power)[0] == pytest.approx(expected, rel=1e-4)


def test_the_dial_takes_out_the_languages_first_and_what_does_not_count_is_not_a_neighbour() -> None:
    assert [margin.centring(balance) for balance in (0, 0.25, 0.5, 0.75, 1)] == [0, 0.5, 1, 1, 1]
    assert [margin.exponent(balance) for balance in (0, 0.25, 0.5, 0.75, 1)] == [0, 0, 0, 0.5, 1]
    rows = np.array([[0.5, -np.inf, 0.3], [-np.inf, -np.inf, -np.inf]], dtype=np.float32)
    assert margin.neighbourhood(rows, 2).tolist() == pytest.approx([0.4, 0.0])
    assert margin.neighbourhood(np.zeros((2, 0), dtype=np.float32), 4).tolist() == [0.0, 0.0]


LANGUAGES = {"de": slice(0, 4), "fr": slice(4, 9), "sw": slice(9, 11)}


def maps() -> dict[str, Float64Array]:
    chance = np.random.default_rng(3)
    return {lang: np.eye(DIM) + 0.2 * chance.standard_normal((DIM, DIM)) for lang in ("de", "fr")}


def calibration() -> Calibration:
    """A calibration where Swahili has statistics and no map."""
    return replace(fit_statistics(samples({"de": 40, "fr": 40, "sw": 40}), "m"), space=CommonSpace.rounded(maps()))


def cosines(made: Calibration, lang: str, documents: FloatArray, queries: FloatArray, share: float = 1.0) -> FloatArray:
    return made.compared(queries, lang, share).cosines(documents, LANGUAGES, made.vector_parts)


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


def test_queries_take_the_maps_of_both_languages_unless_nothing_is_centred_and_documents_stay() -> None:
    documents, queries = some(11), some(3, 2)
    for lang in ("de", "fr", "sw"):
        found = cosines(calibration(), lang, documents, queries)
        assert np.allclose(found, transcribed(lang, documents, queries), atol=1e-5)
    for share in (0.0, 0.6):
        assert np.allclose(cosines(calibration(), "de", documents, queries, share), documents @ queries.T, atol=1e-6)
    made = calibration()
    plain = replace(made, space=PLAIN_SPACE)
    corrected = made.correct_documents(some(11), LANGUAGES, query_lang="de")
    assert np.array_equal(corrected, plain.correct_documents(some(11), LANGUAGES))


def test_the_store_finds_what_is_compared() -> None:
    """The inner product of raw documents with the query for kNN differs from the compared one by a constant."""
    documents, made = some(5), calibration()
    asked = made.compared(some(1, 2), "de")
    centred = documents - made.mean("document", "fr")
    compared = asked.cosines(centred, {"fr": slice(0, 5)}, made.vector_parts)[:, 0]
    assert np.ptp(documents @ made.queries_for_store(asked.toward("fr"), "fr", lang="de")[0] - compared) < 1e-5


def test_pseudo_queries_are_mapped_too_and_a_zero_query_stays_zero() -> None:
    documents, made = some(11), calibration()
    pseudo_queries = made.bank("de").queries
    mapped = pseudo_queries.cosines(documents, LANGUAGES, made.vector_parts)
    assert np.allclose(mapped, transcribed("de", documents, pseudo_queries.vectors), atol=1e-5)
    assert pseudo_queries.toward("fr") is pseudo_queries.toward("fr")
    assert not cosines(calibration(), "de", unit_rows(some(11)), np.zeros((1, DIM), np.float32)).any()
