"""The calibration artifact: corrections are exact, ids are hashes, damage is said; and what is said of it as JSON."""

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
from encoders.maps.space_maps import SpaceMaps
from encoders.methods.moments import PartMoments
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Calibration, LanguageStatistics
from query.calibration.calibration_summary import CommonSpaceSummary, MatesSummary, Summary
from query.calibration.comparison_space import PLAIN_SPACE, CommonSpace, MappedSpace, Space
from query.calibration_fitting.language_statistics import CalibrationSamples, ShrunkMeans, fit_statistics
from tests.query.calibration.earlier import earlier_artifact, earlier_summary

DIM = 12
PARTS = VectorParts.equal(DIM)


def samples(counts: dict[str, int], seed: int = 0) -> CalibrationSamples:
    """Random languages, each around a mean of its own."""
    chance = np.random.default_rng(seed)
    made = CalibrationSamples()
    for lang, count in counts.items():
        centre = chance.standard_normal(DIM)
        vectors = unit_rows((centre + chance.standard_normal((count, DIM))).astype(np.float32))
        for moments in (made.documents, made.passages, made.queries):
            moments[lang] = PartMoments(PARTS)
            moments[lang].add(vectors)
        made.bank[lang] = int8_rows(vectors)
        made.sources[lang] = tuple(f"{lang}{row}" for row in range(count))
    return made


def some(count: int, seed: int = 1, dim: int = DIM) -> FloatArray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32))


@given(st.floats(0, 1), st.integers(0, 1000))
def test_correcting_the_query_ranks_as_correcting_the_documents_does(share: float, seed: int) -> None:
    """The inner product with the corrected query differs from the exact one by a constant a query and language."""
    made = fit_statistics(samples({"de": 40, "fr": 40}, seed), "m")
    documents, query = some(9, seed), made.correct_queries(some(1, seed + 1), "fr", share)
    exact = documents - np.float32(share) * made.languages["de"].means["document"]
    assert np.ptp(documents @ made.queries_for_store(query, "de", share)[0] - exact @ query[0]) < 1e-5


def test_the_nearest_raw_vectors_have_the_largest_cosines_without_the_mean() -> None:
    """Of vectors that share much, lengths without the mean differ; a sample tells how near the nearest are."""
    chance = np.random.default_rng(2)
    shared, subjects = some(1, 0, 64), some(100, 1, 64)
    own = unit_rows(some(4000, 2, 64) + np.repeat(subjects, 40, axis=0))
    documents = unit_rows((3 * shared + own * chance.uniform(0.5, 1.5, (4000, 1))).astype(np.float32))
    sample, nothing = int8_rows(documents[::8]), np.zeros((0, 64), np.int8)
    statistics = LanguageStatistics(4000, {"document": documents.mean(axis=0)}, nothing, (), sample)
    made, queries = Calibration("m", {"de": statistics}, {}, VectorParts.equal(64)), subjects[:50]
    best = np.argsort(-made.correct_documents(documents, {"de": slice(0, 4000)}) @ queries.T, axis=0)[:10]
    nearest = np.argsort(-documents @ made.candidate_queries(queries, "de").T, axis=0)[:25]
    assert np.mean([np.isin(best[:, query], nearest[:, query]).mean() for query in range(50)]) > 0.95


def test_a_bank_is_filled_up_and_a_language_that_is_not_here_has_the_pooled_mean() -> None:
    made = fit_statistics(samples({"de": 40, "fr": 40}), "m")
    corrected = made.correct_documents(some(1), {"ja": slice(0, 1)})
    assert corrected == pytest.approx(unit_rows(some(1) - made.pooled["document"]), abs=1e-6)
    bank = made.bank("ja")
    assert {source[:2] for source in bank.sources} == {"de", "fr"}
    assert len(bank.queries) == len(bank.sources) >= 32
    made = fit_statistics(samples({"de": 40, "sw": 3}), "m")
    bank = made.bank("sw")
    assert bank.sources[:3] == ("sw0", "sw1", "sw2")
    assert len(bank.queries) == len(bank.sources) >= 32
    expected = made.correct_queries(unit_rows(made.languages["de"].bank[: len(bank.sources) - 3]), "de")
    assert bank.queries.vectors[3:] == pytest.approx(expected, abs=1e-6)
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
            assert corrected == pytest.approx(unit_rows((document - made.pooled["document"])[None])[0], abs=1e-3)


def test_equal_vectors_stay_as_they_are_and_a_language_without_any_is_no_division_by_zero() -> None:
    drawn = samples({"de": 4, "fr": 4, "sw": 0})
    for seed, lang in enumerate(("de", "fr")):
        drawn.documents[lang] = PartMoments(PARTS)
        drawn.documents[lang].add(np.tile(some(1, seed), (4, 1)))
    made = fit_statistics(drawn, "m")
    assert made.mean("document", "sw") == pytest.approx(made.pooled["document"])
    assert made.mean("document", "de") == pytest.approx(drawn.documents["de"].mean, abs=1e-6)
    corrected = made.correct_documents(np.tile(some(1, 0), (4, 1)), {"de": slice(0, 4)})
    assert np.linalg.norm(corrected, axis=1) == pytest.approx(np.ones(4), abs=1e-4)


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
        assert shrunk.means[lang] == pytest.approx(pooled + own * (means[at] - pooled), abs=1e-4)


def sample_calibration() -> Calibration:
    return replace(fit_statistics(samples({"de": 40, "fr": 5}), "m"), balance=0.3)


def test_an_artifact_comes_back_as_it_was_and_its_id_is_of_all_that_ranks() -> None:
    made = replace(sample_calibration(), mates=True)
    again = Calibration.from_bytes(made.to_bytes())
    assert (again.id, again.balance, again.mates, again.space.name) == (made.id, 0.3, True, "")
    assert np.array_equal(again.languages["fr"].bank, made.languages["fr"].bank)
    others = [
        replace(made, balance=1.0),
        replace(made, mates=False),
        replace(made, model="another"),
        replace(made, space=CommonSpace({"de": np.eye(DIM, dtype=np.float32)})),
        fit_statistics(samples({"de": 40, "fr": 5}, seed=7), "m"),
    ]
    assert len({made.id, *(other.id for other in others)}) == 1 + len(others)


def test_plain_cosine_balances_nothing_and_a_balance_that_is_none_is_refused() -> None:
    plain = Calibration.none("m", PARTS)
    assert (plain.balance, plain.mates, plain.space.name) == (0, False, "")
    assert plain.correct_documents(some(3), {"de": slice(0, 3)}) == pytest.approx(some(3), abs=1e-6)
    for balance in (-0.1, 1.5, float("nan")):
        with pytest.raises(BadInput, match="balance goes from 0"):
            replace(plain, balance=balance)


def test_artifacts_of_another_version_are_told_from_damaged_ones() -> None:
    for damaged in (b"", b"PK\x03\x04 damaged", b"\x93NUMPY"):
        with pytest.raises(StoreError, match="make another: dragoman calibrate"):
            Calibration.from_bytes(damaged)
    made = fit_statistics(samples({"de": 40}), "m")
    version = "made by another version of Dragoman; make another: dragoman calibrate"
    networks = "ranks through networks, which Dragoman has no longer.*make another"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": 1}, version), ({"format": 99}, version), ({"maps": {"networks": []}}, networks)
    ]  # fmt: skip
    for changed, sentence in changes:
        buffer = io.BytesIO()
        with np.load(io.BytesIO(made.to_bytes())) as archive:
            header = json.loads(str(archive["header"]))
            np.savez(buffer, **{**archive, "header": np.array(json.dumps({**header, **changed}))})
        with pytest.raises(StoreError, match=sentence):
            Calibration.from_bytes(buffer.getvalue())


MAPS = SpaceMaps.rounded("m", {("fr", "de"): np.eye(DIM, dtype=np.float32) + np.float32(0.1)}, about={"method": "lca"})


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (PLAIN_SPACE, ""),
        (CommonSpace.rounded({lang: np.eye(DIM) + 0.1 for lang in ("de", "fr")}), "common space"),
        (MappedSpace(MAPS), "lca"),
    ],
)
def test_each_space_is_kept_and_of_an_earlier_calibration_all_but_its_settings(space: Space, name: str) -> None:
    """There mates count if they lifted; settings were left out where they had their first values."""
    before = replace(sample_calibration(), space=space)
    same = Calibration.from_bytes(before.to_bytes())
    assert (same.id, same.space.name) == (before.id, name)
    for lift, rank in ((0.8, 0), (0.05, 2), (0.0, 0)):
        read = Calibration.from_bytes(earlier_artifact(before, lift=lift, rank=rank, margin="distance"))
        assert read.id == Calibration.from_bytes(read.to_bytes()).id == replace(before, mates=lift > 0).id
    assert not Calibration.from_bytes(earlier_artifact(before, "lift", "bar", "second_look", "mix")).mates


def test_a_summary_is_known_as_an_earlier_versions_and_keeps_its_maps_and_common_space() -> None:
    space = {"subjects": 853, "ridge": 3.0, "before": 0.7, "after": 0.73}
    maps = {"method": "lca", "before": "none", "unknown": ["ja"], "stands_in": True}
    languages = {lang: {"documents": n, "pseudo_queries": n} for lang, n in (("de", 40), ("fr", 5))}
    summary = Summary.from_json(earlier_summary(sample_calibration(), "concepts", common_space=space, map=maps))
    assert summary.is_earlier
    assert (summary.decided_by, summary.balance, summary.mates, summary.weights) == ("documents", 0.3, None, ())
    assert (summary.languages, summary.map, summary.migrated_from) == (languages, maps, "none")
    assert summary.common_space == CommonSpaceSummary(853, 3.0, 0.7, 0.73)
    assert Summary.from_json(earlier_summary(sample_calibration(), "you", weights=[0.2, 0.8])).weights == (0.2, 0.8)
    assert not Summary.from_json(Summary.of(sample_calibration(), "documents").as_json()).is_earlier


SUMMARY = Summary(
    0.3,
    (0.2, 0.8),
    {"de": {"documents": 40, "pseudo_queries": 30}},
    "documents",
    map={"method": "lca", "before": "a", "to": "b", "unknown": ["fr"], "stands_in": True},
    mates=MatesSummary(True, 0.75, 0.95, 120, 0.5, 0.6),
    common_space=CommonSpaceSummary(853, 3.0, 0.7, 0.73),
)
BARE = Summary(0.75, (), {}, "default")


def test_a_summary_is_of_the_calibration_and_comes_back_as_it_was() -> None:
    """Through JSON, as the database keeps it."""
    for summary in (SUMMARY, BARE, replace(SUMMARY, mates=MatesSummary(False, 0.1, None))):
        assert Summary.from_json(json.loads(json.dumps(summary.as_json()))) == summary
    ends = [(one.migrated_from, one.migrated_to) for one in (SUMMARY, BARE, replace(BARE, map={"method": "lca"}))]
    assert ends == [("a", "b"), ("", ""), ("", "")]
    summary = Summary.of(sample_calibration(), "you")
    assert (summary.balance, summary.decided_by, summary.weights) == (0.3, "you", ())
    assert summary.few == summary.as_json()["few"] == {"fr": 5}
    two = replace(sample_calibration(), vector_parts=VectorParts((5, 7), (0.3, 0.7)))
    assert Summary.of(two, "you").weights == (0.3, 0.7)
