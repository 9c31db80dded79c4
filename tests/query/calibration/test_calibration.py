"""The calibration artifact: corrections are exact, ids are hashes, damage is said."""

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, int8_rows, unit_rows
from encoders.errors import BadInput, StoreError
from encoders.methods.moments import Moments, PartMoments
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import CommonSpace
from query.calibration_fitting.language_statistics import CalibrationSamples, fit_statistics
from query.calibration_fitting.shrinkage import ShrunkMeans

DIM = 12
PARTS = VectorParts.equal(DIM)


def samples(counts: dict[str, int], seed: int = 0) -> CalibrationSamples:
    """Random languages, each around a mean of its own."""
    chance = np.random.default_rng(seed)
    made = CalibrationSamples()
    for lang, count in counts.items():
        centre = chance.standard_normal(DIM)
        made.documents[lang], made.passages[lang], made.queries[lang] = (PartMoments(PARTS) for _ in range(3))
        vectors = unit_rows((centre + chance.standard_normal((count, DIM))).astype(np.float32))
        made.documents[lang].add(vectors)
        made.passages[lang].add(vectors)
        made.queries[lang].add(vectors)
        made.bank[lang] = int8_rows(vectors)
        made.sources[lang] = tuple(f"{lang}{row}" for row in range(count))
    return made


def some(count: int, seed: int = 1) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32))


@given(st.floats(0, 1), st.integers(0, 1000))
def test_correcting_the_query_ranks_as_correcting_the_documents_does(share: float, seed: int) -> None:
    """The inner product with the corrected query differs from the exact one by a constant a query and language."""
    made = fit_statistics(samples({"de": 40, "fr": 40}, seed), "m")
    documents, query = some(9, seed), made.correct_queries(some(1, seed + 1), "fr", share)
    exact = documents - np.float32(share) * made.languages["de"].means["document"]
    difference = documents @ made.queries_for_store(query, "de", share)[0] - exact @ query[0]
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
    made = fit_statistics(drawn, "m")
    distances = {
        lang: np.linalg.norm(one.means["document"] - drawn.documents[lang].mean)
        / np.linalg.norm(made.pooled["document"] - drawn.documents[lang].mean)
        for lang, one in made.languages.items()
    }
    assert distances["sw"] > 5 * distances["de"]
    assert 0 < distances["sw"] < 1


def test_a_language_that_is_not_here_has_the_pooled_mean_and_everybodys_pseudo_queries() -> None:
    made = fit_statistics(samples({"de": 40, "fr": 40}), "m")
    corrected = made.correct_documents(some(1), {"ja": slice(0, 1)})
    assert corrected == pytest.approx(unit_rows(some(1) - made.pooled["document"]), abs=1e-6)
    bank = made.bank("ja")
    assert {source[:2] for source in bank.sources} == {"de", "fr"}
    assert len(bank.queries) == len(bank.sources) >= 32


def test_a_small_bank_is_filled_up_with_other_languages_queries() -> None:
    made = fit_statistics(samples({"de": 40, "sw": 3}), "m")
    bank = made.bank("sw")
    assert bank.sources[:3] == ("sw0", "sw1", "sw2")
    assert len(bank.queries) == len(bank.sources) >= 32
    expected = made.correct_queries(unit_rows(made.languages["de"].bank[: len(bank.sources) - 3]), "de")
    assert bank.queries.vectors[3:] == pytest.approx(expected, abs=1e-6)


def test_a_documents_own_pseudo_queries_are_not_its_neighbours() -> None:
    made = fit_statistics(samples({"de": 64, "fr": 40}), "m")
    bank = made.bank("de")
    cosines = some(3) @ bank.queries.vectors.T
    means = bank.neighbourhoods(cosines.copy(), ["de5", "elsewhere", "de0"])
    for row, own in enumerate((5, None, 0)):
        others = cosines[row] if own is None else np.delete(cosines[row], own)
        assert means[row] == pytest.approx(np.sort(others)[-bank.neighbours :].mean(), abs=1e-6)


@pytest.mark.parametrize("counts", [{"de": 1, "fr": 1, "ja": 1}, {"de": 1, "fr": 1, "ja": 2}, {"de": 3, "fr": 0}])
def test_where_nothing_can_be_known_of_a_language_it_is_as_all_are(counts: dict[str, int]) -> None:
    """A single vector has no spread, and the mean of one document is no statistic of its language."""
    drawn = samples(counts)
    made = fit_statistics(drawn, "m")
    for lang, one in made.languages.items():
        assert np.isfinite(one.means["document"]).all()
        if counts[lang] == 1:
            (document,) = unit_rows(drawn.documents[lang].mean[None].astype(np.float32))
            corrected = made.correct_documents(document[None], {lang: slice(0, 1)})[0]
            pooled = made.pooled["document"]
            assert corrected == pytest.approx(unit_rows((document - pooled)[None])[0], abs=1e-3)


def test_languages_of_equal_vectors_and_one_without_any_are_no_division_by_zero() -> None:
    drawn = samples({"de": 4, "fr": 4, "sw": 0})
    for lang in ("de", "fr"):
        drawn.documents[lang] = PartMoments(PARTS)
        drawn.documents[lang].add(np.tile(some(1, seed=len(lang) + ord(lang[0])), (4, 1)))
    made = fit_statistics(drawn, "m")
    assert made.mean("document", "sw") == pytest.approx(made.pooled["document"])
    assert made.mean("document", "de") == pytest.approx(drawn.documents["de"].mean, abs=1e-6)


@given(st.integers(2, 9), st.integers(0, 99))
def test_means_are_drawn_by_the_variances_ratio(languages: int, seed: int) -> None:
    """Against the formulas written out: within over the degrees of freedom, between less what scatters the means."""
    chance = np.random.default_rng(seed)
    vectors = {
        str(at): chance.standard_normal(DIM) + chance.standard_normal((chance.integers(1, 9), DIM))
        for at in range(languages)
    }
    moments = {lang: PartMoments(PARTS) for lang in vectors}
    for lang, rows in vectors.items():
        moments[lang].add(rows.astype(np.float32))
    counts = np.array([len(rows) for rows in vectors.values()])
    means = np.stack([rows.mean(axis=0) for rows in vectors.values()])
    weights = counts / (counts + 32)
    weights /= weights.sum()
    pooled = weights @ means
    if counts.max() == 1:
        return
    within = sum(((rows - rows.mean(axis=0)) ** 2).sum() for rows in vectors.values()) / (counts - 1).sum()
    scattered = (weights * (1 - weights) / counts).sum() * within
    between = ((weights * ((means - pooled) ** 2).sum(axis=1)).sum() - scattered) / (1 - (weights**2).sum())
    shrunk = ShrunkMeans(moments)
    for at, lang in enumerate(vectors):
        own = counts[at] / (counts[at] + within / between) if between > 0 else 0.0
        assert shrunk.mean(lang) == pytest.approx(pooled + own * (means[at] - pooled), abs=1e-4)


def test_vectors_that_are_all_equal_stay_as_they_are() -> None:
    same = np.tile(some(1), (10, 1))
    drawn = samples({"de": 10})
    drawn.documents["de"] = PartMoments(PARTS)
    drawn.documents["de"].add(same)
    corrected = fit_statistics(drawn, "m").correct_documents(same, {"de": slice(0, 10)})
    assert np.isfinite(corrected).all()
    assert np.linalg.norm(corrected, axis=1) == pytest.approx(np.ones(10), abs=1e-4)


def test_the_arrays_of_an_artifact_keep_their_names_and_order() -> None:
    made = fit_statistics(samples({"de": 40}), "m")
    with np.load(io.BytesIO(made.to_bytes()), allow_pickle=False) as archive:
        names = archive.files
    assert [name for name in names if name not in {"header", "allow_pickle"}] == [
        *(f"{kind}/mean" for kind in ("pooled", "pooled_passage", "pooled_query")),
        *(f"languages/de/{name}" for name in ("mean", "passage_mean", "query_mean", "bank")),
    ]


def test_an_artifact_comes_back_as_it_was_and_its_id_is_of_all_that_ranks() -> None:
    made = replace(fit_statistics(samples({"de": 40, "fr": 5}), "m"), balance=0.3, mates=True)
    again = Calibration.from_bytes(made.to_bytes())
    assert again.id == made.id
    assert (again.balance, again.mates, again.space.name) == (0.3, True, "")
    for kind in ("document", "passage", "query"):
        assert np.array_equal(again.mean(kind, "fr"), made.mean(kind, "fr"))
        assert np.array_equal(again.pooled[kind], made.pooled[kind])
    assert np.array_equal(again.languages["fr"].bank, made.languages["fr"].bank)
    assert again.languages["fr"].sources == made.languages["fr"].sources
    others = [
        replace(made, balance=1.0),
        replace(made, mates=False),
        replace(made, model="another"),
        replace(made, space=CommonSpace({"de": np.eye(DIM, dtype=np.float32)})),
        fit_statistics(samples({"de": 40, "fr": 5}, seed=7), "m"),
    ]
    assert len({made.id, *(other.id for other in others)}) == 1 + len(others)


def test_plain_cosine_balances_nothing_and_knows_of_no_mates() -> None:
    plain = Calibration.none("m", PARTS)
    assert (plain.balance, plain.mates, plain.space.name) == (0, False, "")
    assert plain.correct_documents(some(3), {"de": slice(0, 3)}) == pytest.approx(some(3), abs=1e-6)


@pytest.mark.parametrize("balance", [-0.1, 1.5, float("nan")])
def test_a_balance_that_is_none_is_refused_where_a_calibration_is_made(balance: float) -> None:
    with pytest.raises(BadInput, match="balance goes from 0"):
        replace(fit_statistics(samples({"de": 40}), "m"), balance=balance)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 damaged", b"\x93NUMPY"])
def test_a_damaged_artifact_is_said(data: bytes) -> None:
    with pytest.raises(StoreError, match="make another: dragoman calibrate"):
        Calibration.from_bytes(data)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"format": 1}, "made by another version of Dragoman; make another: dragoman calibrate"),
        ({"format": 99}, "made by another version of Dragoman; make another: dragoman calibrate"),
        ({"maps": {"networks": []}}, "ranks through networks, which Dragoman has no longer.*make another"),
    ],
)
def test_artifacts_of_another_version_are_told_from_damaged_ones(changed: dict[str, Any], sentence: str) -> None:
    made = fit_statistics(samples({"de": 40}), "m")
    buffer = io.BytesIO()
    with np.load(io.BytesIO(made.to_bytes())) as archive:
        header = json.loads(str(archive["header"]))
        np.savez(buffer, **{**archive, "header": np.array(json.dumps({**header, **changed}))})
    with pytest.raises(StoreError, match=sentence):
        Calibration.from_bytes(buffer.getvalue())
