"""The calibration artifact: corrections are exact, ids are hashes, damage is said."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.document import FloatArray, int8_rows, unit_rows
from encoders.errors import BadInput, StoreError
from encoders.maps.space import SpaceMaps
from encoders.methods.moments import Moments, PartMoments
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Calibration
from query.calibration.calibration_choice import NO_TITLES, USUAL_MIX, CalibrationChoice
from query.calibration.mapped_calibration import MappedCalibration, read_calibration
from query.fitting.shrinkage import Shrunk
from query.fitting.statistics import CalibrationSamples, fit_statistics

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


@given(st.integers(0, 3), st.floats(0, 1), st.integers(0, 1000))
def test_correcting_the_query_ranks_as_correcting_the_documents_does(rank: int, share: float, seed: int) -> None:
    """The inner product with the corrected query differs from the exact one by a constant a query and language."""
    made = fit_statistics(samples({"de": 40, "fr": 40}, seed), "m", rank=rank)
    documents, query = some(9, seed), made.correct_queries(some(1, seed + 1), "fr", share)
    known = made.languages["de"].components["document"]
    if rank:
        exact = documents - np.float32(share) * (documents @ known.subspace.T) @ known.subspace
    else:
        exact = documents - np.float32(share) * known.mean
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
        lang: np.linalg.norm(one.components["document"].mean - drawn.documents[lang].mean)
        / np.linalg.norm(made.pooled["document"].mean - drawn.documents[lang].mean)
        for lang, one in made.languages.items()
    }
    assert distances["sw"] > 5 * distances["de"]
    assert 0 < distances["sw"] < 1


def test_a_language_that_is_not_here_has_the_pooled_mean_and_everybodys_pseudo_queries() -> None:
    made = fit_statistics(samples({"de": 40, "fr": 40}), "m")
    corrected = made.correct_documents(some(1), {"ja": slice(0, 1)})
    assert corrected == pytest.approx(unit_rows(some(1) - made.pooled["document"].mean), abs=1e-6)
    bank = made.bank("ja")
    assert {source[:2] for source in bank.sources} == {"de", "fr"}
    assert len(bank.queries) == len(bank.sources) >= 32


def test_a_small_bank_is_filled_up_with_other_languages_queries() -> None:
    made = fit_statistics(samples({"de": 40, "sw": 3}), "m")
    sources = made.bank("sw").sources
    assert sources[:3] == ("sw0", "sw1", "sw2")
    assert len(sources) >= 32


def test_a_language_that_is_not_here_loses_what_all_share_where_others_lose_a_subspace() -> None:
    """Its documents are asked, and compared, as those of languages that are known: by directions and not raw."""
    made = fit_statistics(samples({"de": 40, "fr": 40}), "m", rank=2)
    vectors, queries = some(5), some(3, seed=2)
    japanese = {"ja": slice(0, 5)}
    pooled = made.pooled["document"].subspace
    assert pooled.shape == (2, DIM)
    assert np.abs(made.correct_documents(vectors, japanese) @ pooled.T).max() < 1e-5
    assert np.abs(made.correct_queries(queries, "ja") @ made.pooled["query"].subspace.T).max() < 1e-5
    assert np.abs(made.queries_for_store(queries, "ja") @ pooled.T).max() < 1e-5
    passages = made.correct_documents(vectors, japanese, kind="passage")
    assert np.abs(passages @ made.pooled["passage"].subspace.T).max() < 1e-5


def test_few_documents_keep_what_tells_them_apart_where_a_subspace_is_taken_out() -> None:
    """Five documents alone span five directions: four of their own would leave next to nothing of them."""
    chance = np.random.default_rng(9)
    scales = np.concatenate((np.full(3, 3.0), np.ones(61)))
    moments = {lang: Moments(64) for lang in ("de", "fr", "sw")}
    vectors = np.zeros((0, 64), np.float32)
    for lang, count in (("de", 400), ("fr", 400), ("sw", 5)):
        noisy = 4 * chance.standard_normal(64) + scales * chance.standard_normal((count, 64))
        vectors = unit_rows(noisy.astype(np.float32))
        moments[lang].add(vectors)
    apart = vectors - vectors.mean(axis=0)

    def left(subspace: FloatArray) -> float:
        return float(((apart - apart @ subspace.T @ subspace) ** 2).sum() / (apart**2).sum())

    made = Shrunk(moments).subspace("sw", 4)
    assert left(moments["sw"].subspace(4)) < 0.3
    assert left(made) > 0.5
    assert (
        float(np.linalg.norm(made @ unit_rows(moments["sw"].mean[None].astype(np.float32))[0])) > 0.95
    )  # its mean goes


def test_fewer_directions_are_the_first_of_more() -> None:
    drawn = samples({"de": 40, "fr": 5})
    widest, made = fit_statistics(drawn, "m", rank=4).with_rank(2), fit_statistics(drawn, "m", rank=2)
    assert widest.id == made.id


@pytest.mark.parametrize("counts", [{"de": 1, "fr": 1, "ja": 1}, {"de": 1, "fr": 1, "ja": 2}, {"de": 3, "fr": 0}])
def test_where_nothing_can_be_known_of_a_language_it_is_as_all_are(counts: dict[str, int]) -> None:
    """A single vector has no spread, and the mean of one document is no statistic of its language."""
    drawn = samples(counts)
    made = fit_statistics(drawn, "m")
    for lang, one in made.languages.items():
        assert np.isfinite(one.components["document"].mean).all()
        if counts[lang] == 1:
            (document,) = unit_rows(drawn.documents[lang].mean[None].astype(np.float32))
            corrected = made.correct_documents(document[None], {lang: slice(0, 1)})[0]
            pooled = made.pooled["document"].mean
            assert corrected == pytest.approx(unit_rows((document - pooled)[None])[0], abs=1e-3)


def test_languages_of_equal_vectors_and_one_without_any_are_no_division_by_zero() -> None:
    drawn = samples({"de": 4, "fr": 4, "sw": 0})
    for lang in ("de", "fr"):
        drawn.documents[lang] = PartMoments(PARTS)
        drawn.documents[lang].add(np.tile(some(1, seed=len(lang) + ord(lang[0])), (4, 1)))
    made = fit_statistics(drawn, "m")
    assert made.component("document", "sw").mean == pytest.approx(made.pooled["document"].mean)
    assert made.component("document", "de").mean == pytest.approx(drawn.documents["de"].mean, abs=1e-6)


@given(st.integers(2, 9), st.integers(0, 99))
def test_means_are_drawn_by_the_variances_ratio(languages: int, seed: int) -> None:
    """Against the formulas written out: within over the degrees of freedom, between less what scatters the means."""
    chance = np.random.default_rng(seed)
    vectors = {
        str(at): chance.standard_normal(DIM) + chance.standard_normal((chance.integers(1, 9), DIM))
        for at in range(languages)
    }
    moments = {lang: Moments(DIM) for lang in vectors}
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
    shrunk = Shrunk(moments)
    for at, lang in enumerate(vectors):
        own = counts[at] / (counts[at] + within / between) if between > 0 else 0.0
        assert shrunk.mean(lang) == pytest.approx(pooled + own * (means[at] - pooled), abs=1e-4)


def test_vectors_that_are_all_equal_stay_as_they_are() -> None:
    same = np.tile(some(1), (10, 1))
    drawn = samples({"de": 10})
    drawn.documents["de"] = PartMoments(PARTS)
    drawn.documents["de"].add(same)
    for rank in (0, 1):
        corrected = fit_statistics(drawn, "m", rank=rank).correct_documents(same, {"de": slice(0, 10)})
        assert np.isfinite(corrected).all()
        assert np.linalg.norm(corrected, axis=1) == pytest.approx(np.ones(10), abs=1e-4)


def test_the_arrays_of_an_artifact_keep_their_names_and_order() -> None:
    made = fit_statistics(samples({"de": 40}), "m")
    with np.load(io.BytesIO(made.to_bytes()), allow_pickle=False) as archive:
        names = archive.files
    pooled = [
        f"{kind}/{name}" for kind in ("pooled", "pooled_passage", "pooled_query") for name in ("mean", "subspace")
    ]
    means, subspaces = ([f"{prefix}{name}" for prefix in ("", "passage_", "query_")] for name in ("mean", "subspace"))
    assert [name for name in names if name not in {"header", "allow_pickle"}] == [
        *pooled,
        *(f"languages/de/{name}" for name in (*means, *subspaces, "bank")),
    ]


def test_an_artifact_comes_back_as_it_was_and_its_id_is_of_all_that_ranks() -> None:
    made = fit_statistics(samples({"de": 40, "fr": 5}), "m", rank=2)
    again = Calibration.from_bytes(made.to_bytes())
    assert again.id == made.id
    assert np.array_equal(again.languages["fr"].bank, made.languages["fr"].bank)
    assert again.languages["fr"].sources == made.languages["fr"].sources
    assert made.with_choice(CalibrationChoice(balance=1.0)).id != made.id
    assert fit_statistics(samples({"de": 40, "fr": 5}, seed=7), "m", rank=2).id != made.id


MATES = CalibrationChoice(rank=2, margin="distance", balance=0.3, lift=0.95, bar=0.7, second_look=True)


def test_an_artifact_keeps_how_mates_count() -> None:
    made = fit_statistics(samples({"de": 40, "fr": 5}), "m", rank=2).with_choice(MATES)
    again = Calibration.from_bytes(made.to_bytes())
    assert (again.lift, again.bar, again.second_look) == (0.95, 0.7, True)
    assert (again.id, replace(again.choice, weights=())) == (made.id, MATES)


@pytest.mark.parametrize("change", [{"lift": 0.9}, {"bar": 0.6}, {"second_look": False}])
def test_calibrations_that_count_mates_otherwise_have_other_ids(change: dict[str, float]) -> None:
    statistics = fit_statistics(samples({"de": 40, "fr": 5}), "m", rank=2)
    other = replace(MATES, **change)  # type: ignore[arg-type]
    assert statistics.with_choice(other).id != statistics.with_choice(MATES).id


def test_in_an_artifact_that_knows_nothing_of_mates_they_do_not_count() -> None:
    """As an earlier version wrote it: its rankings stay as they were."""
    made = fit_statistics(samples({"de": 40, "fr": 5}), "m").with_choice(CalibrationChoice())
    buffer = io.BytesIO()
    with np.load(io.BytesIO(made.to_bytes())) as archive:
        header = json.loads(str(archive["header"]))
        earlier = {name: value for name, value in header.items() if name not in {"lift", "bar", "second_look"}}
        assert len(earlier) == len(header) - 3
        np.savez(buffer, **{**archive, "header": np.array(json.dumps(earlier))})
    again = Calibration.from_bytes(buffer.getvalue())
    assert (again.lift, again.bar, again.second_look) == (0, 0.5, False)
    assert (again.balance, again.margin) == (made.balance, made.margin)
    without = made.with_choice(CalibrationChoice(lift=0.0))
    with np.load(io.BytesIO(without.to_bytes())) as archive:
        assert json.loads(str(archive["header"])) == earlier  # so the id that it was stored under stays
    assert again.id == without.id


def test_a_choice_with_maps_keeps_how_mates_count() -> None:
    made = fit_statistics(samples({"de": 40, "fr": 40}), "m").with_choice(replace(MATES, rank=0))
    maps = SpaceMaps.rounded("m", {("fr", "de"): np.eye(DIM, dtype=np.float32)})
    mapped = MappedCalibration.on(made, maps)
    for calibration in (mapped, mapped.for_queries_in("de"), read_calibration(mapped.to_bytes())):
        assert replace(calibration.choice, weights=()) == replace(MATES, rank=0)


def test_plain_cosine_knows_of_no_mates() -> None:
    plain = Calibration.none("m", PARTS)
    assert (plain.balance, plain.lift, plain.second_look) == (0, 0, 0)


@pytest.mark.parametrize("change", [{"lift": -0.1}, {"lift": 1.1}, {"lift": float("nan")}])
def test_shares_that_are_none_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="mates lift by a share from 0 to 1"):
        CalibrationChoice(**change)  # type: ignore[arg-type]


def test_queries_of_a_bank_are_not_their_own_neighbours() -> None:
    """Each query's mean leaves the query itself out; without rows of their own all queries share one mean."""
    made = fit_statistics(samples({"de": 64, "fr": 40}), "m")
    bank, cosines = made.bank("de"), some(3) @ made.bank("de").queries.vectors.T
    k, rows = bank.neighbours, np.array([-1, 0, 5])
    means = replace(bank, own_rows=rows).neighbourhoods(cosines)
    assert bank.neighbourhoods(cosines) == pytest.approx(np.sort(cosines, axis=1)[:, -k:].mean(axis=1), abs=1e-6)
    for row, of_query in zip(rows, means, strict=True):
        others = cosines if row < 0 else np.delete(cosines, row, axis=1)
        assert of_query == pytest.approx(np.sort(others, axis=1)[:, -k:].mean(axis=1), abs=1e-6)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 damaged", b"\x93NUMPY"])
def test_a_damaged_artifact_is_said(data: bytes) -> None:
    with pytest.raises(StoreError, match="make another: dragoman calibrate"):
        Calibration.from_bytes(data)


def test_artifacts_of_another_format_are_told_from_damaged_ones() -> None:
    made = fit_statistics(samples({"de": 40}), "m")
    buffer = io.BytesIO()
    with np.load(io.BytesIO(made.to_bytes())) as archive:
        header = json.loads(str(archive["header"]))
        np.savez(buffer, **{**archive, "header": np.array(json.dumps({**header, "format": 1}))})
    with pytest.raises(StoreError, match="made by another version of Dragoman; make another: dragoman calibrate"):
        Calibration.from_bytes(buffer.getvalue())


def test_a_calibration_made_before_titles_were_passages_keeps_its_id_and_counts_none() -> None:
    made = fit_statistics(samples({"de": 40}), "m")
    earlier = replace(made, mix=NO_TITLES)
    with np.load(io.BytesIO(earlier.to_bytes())) as archive:
        assert "mix" not in json.loads(str(archive["header"]))
    read = Calibration.from_bytes(earlier.to_bytes())
    assert (read.mix, read.id) == (NO_TITLES, earlier.id)
    assert (Calibration.from_bytes(made.to_bytes()).mix, made.mix) == (USUAL_MIX, USUAL_MIX)
    assert made.id != earlier.id
