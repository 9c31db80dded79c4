"""The calibration artifact: corrections are exact, ids are hashes, damage is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, int8_rows, unit_rows
from encoders.errors import StoreError
from encoders.moments import Moments
from query.calibration import Calibration
from query.language_statistics import Samples, calibration

DIM = 12


def samples(counts: dict[str, int], seed: int = 0) -> Samples:
    """Random languages, each around a mean of its own."""
    chance = np.random.default_rng(seed)
    made = Samples()
    for lang, count in counts.items():
        centre = chance.standard_normal(DIM)
        made.documents[lang], made.passages[lang], made.queries[lang] = (Moments(DIM) for _ in range(3))
        vectors = unit_rows((centre + chance.standard_normal((count, DIM))).astype(np.float32))
        made.documents[lang].add(vectors)
        made.passages[lang].add(vectors)
        made.queries[lang].add(vectors)
        made.bank[lang] = int8_rows(vectors)
        made.sources[lang] = tuple(f"{lang}{row}" for row in range(count))
    return made


def some(count: int, seed: int = 1) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32))


@given(st.integers(0, 3), st.floats(0, 1), st.integers(0, 1000))
def test_correcting_the_query_ranks_as_correcting_the_documents_does(rank: int, share: float, seed: int) -> None:
    """The inner product with the corrected query differs from the exact one by a constant a query and language."""
    made = calibration(samples({"de": 40, "fr": 40}, seed), "m", rank=rank)
    documents, query = some(9, seed), made.queries(some(1, seed + 1), "fr", share)
    known = made.languages["de"]
    if rank:
        exact = documents - np.float32(share) * (documents @ known.subspace.T) @ known.subspace
    else:
        exact = documents - np.float32(share) * known.mean
    difference = documents @ made.asked(query, "de", share)[0] - exact @ query[0]
    assert np.ptp(difference) < 1e-5


def test_the_subspace_is_the_top_right_singular_vectors() -> None:
    vectors = some(50)
    moments = Moments(DIM)
    moments.add(vectors[:20])
    moments.add(vectors[20:])
    _, _, expected = np.linalg.svd(vectors.astype(np.float64))
    found = moments.subspace(3)
    assert np.abs(found @ expected[:3].T) == pytest.approx(np.eye(3), abs=1e-5)
    assert moments.mean == pytest.approx(vectors.mean(axis=0), abs=1e-6)
    assert moments.spread == pytest.approx(float(((vectors - vectors.mean(axis=0)) ** 2).sum(axis=1).mean()), abs=1e-5)


def test_a_language_with_few_documents_is_drawn_towards_the_others() -> None:
    drawn = samples({"de": 400, "fr": 400, "sw": 2})
    made = calibration(drawn, "m")
    distances = {
        lang: np.linalg.norm(one.mean - drawn.documents[lang].mean)
        / np.linalg.norm(made.pooled - drawn.documents[lang].mean)
        for lang, one in made.languages.items()
    }
    assert distances["sw"] > 5 * distances["de"]
    assert 0 < distances["sw"] < 1


def test_a_language_that_is_not_here_has_the_pooled_mean_and_everybodys_pseudo_queries() -> None:
    made = calibration(samples({"de": 40, "fr": 40}), "m")
    assert made.documents(some(1), "ja") == pytest.approx(unit_rows(some(1) - made.pooled), abs=1e-6)
    bank, sources = made.bank("ja")
    assert {source[:2] for source in sources} == {"de", "fr"}
    assert len(bank) == len(sources) >= 32


def test_a_small_bank_is_filled_up_with_other_languages_queries() -> None:
    made = calibration(samples({"de": 40, "sw": 3}), "m")
    _, sources = made.bank("sw")
    assert sources[:3] == ("sw0", "sw1", "sw2")
    assert len(sources) >= 32


def test_vectors_that_are_all_equal_stay_as_they_are() -> None:
    same = np.tile(some(1), (10, 1))
    drawn = samples({"de": 10})
    drawn.documents["de"] = Moments(DIM)
    drawn.documents["de"].add(same)
    for rank in (0, 1):
        corrected = calibration(drawn, "m", rank=rank).documents(same, "de")
        assert np.isfinite(corrected).all()
        assert np.linalg.norm(corrected, axis=1) == pytest.approx(np.ones(10), abs=1e-4)


def test_an_artifact_comes_back_as_it_was_and_its_id_is_of_all_that_ranks() -> None:
    made = calibration(samples({"de": 40, "fr": 5}), "m", rank=2)
    again = Calibration.from_bytes(made.to_bytes())
    assert again.id == made.id
    assert np.array_equal(again.languages["fr"].bank, made.languages["fr"].bank)
    assert again.languages["fr"].sources == made.languages["fr"].sources
    assert made.with_choice(balance=1.0, margin="ratio").id != made.id
    assert calibration(samples({"de": 40, "fr": 5}, seed=7), "m", rank=2).id != made.id


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 damaged", b"\x93NUMPY"])
def test_a_damaged_artifact_is_said(data: bytes) -> None:
    with pytest.raises(StoreError, match="make it anew: dragoman calibrate"):
        Calibration.from_bytes(data)
