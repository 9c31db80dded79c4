"""Calibrations of the earlier version, and what is said of a calibration as JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest

from encoders.maps.space_maps import SpaceMaps
from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration import Calibration
from query.calibration.calibration_summary import CommonSpaceSummary, MatesSummary, Summary
from query.calibration.comparison_space import CommonSpace, MappedSpace
from query.calibration_fitting.language_statistics import fit_statistics
from tests.query.calibration.earlier import earlier_artifact, earlier_summary
from tests.query.calibration.test_calibration import DIM, samples, some


def made() -> Calibration:
    return replace(fit_statistics(samples({"de": 40, "fr": 5}), "m"), balance=0.3)


@pytest.mark.parametrize("rank", [0, 2])
def test_means_and_banks_are_kept_and_subspaces_are_not(rank: int) -> None:
    before = made()
    read = Calibration.from_bytes(earlier_artifact(before, rank=rank, margin="distance"))
    assert (read.model, read.balance, read.vector_parts) == ("m", 0.3, before.vector_parts)
    assert list(read.languages) == ["de", "fr"]
    for kind in before.pooled:
        assert np.array_equal(read.pooled[kind], before.pooled[kind])
    for lang, statistics in before.languages.items():
        assert read.languages[lang].documents == statistics.documents
        assert read.languages[lang].sources == statistics.sources
        assert np.array_equal(read.languages[lang].bank, statistics.bank)
        for kind in before.pooled:
            assert np.array_equal(read.mean(kind, lang), before.mean(kind, lang))
    languages = {"de": slice(0, 2), "fr": slice(2, 5)}
    assert np.array_equal(read.correct_documents(some(5), languages), before.correct_documents(some(5), languages))


@pytest.mark.parametrize(("lift", "mates"), [(0.8, True), (0.05, True), (0.0, False)])
def test_mates_count_if_they_lifted(lift: float, *, mates: bool) -> None:
    assert Calibration.from_bytes(earlier_artifact(made(), lift=lift)).mates is mates


def test_mates_do_not_count_where_a_calibration_knew_nothing_of_them() -> None:
    """These settings were left out of the header where they had their first values, and so was the mix."""
    assert Calibration.from_bytes(earlier_artifact(made(), "lift", "bar", "second_look", "mix")).mates is False


def test_read_and_kept_again_it_is_a_calibration_of_this_version() -> None:
    read = Calibration.from_bytes(earlier_artifact(made(), lift=0.8))
    assert read.id == replace(made(), mates=True).id
    assert Calibration.from_bytes(read.to_bytes()).id == read.id


def test_the_common_space_is_kept() -> None:
    maps = {lang: np.eye(DIM) + 0.1 * np.random.default_rng(at).standard_normal((DIM, DIM)) for at, lang in
            enumerate(("de", "fr"))}  # fmt: skip
    before = replace(made(), space=CommonSpace.rounded(maps))
    read = Calibration.from_bytes(earlier_artifact(before))
    assert read.space.name == "common space"
    documents, queries = some(3), some(2, 5)
    found, expected = (
        one.compared(queries, "de").cosines(documents, {"fr": slice(0, 3)}, one.vector_parts) for one in (read, before)
    )
    assert np.array_equal(found, expected)


def test_maps_are_kept() -> None:
    weights = np.eye(DIM, dtype=np.float32) + np.float32(0.1)
    before = replace(
        made(), space=MappedSpace(SpaceMaps.rounded("m", {("fr", "de"): weights}, about={"method": "lca"}))
    )
    read = Calibration.from_bytes(earlier_artifact(before))
    assert read.space.name == "lca"
    found, expected = (one.correct_documents(some(3), {"de": slice(0, 3)}, query_lang="fr") for one in (read, before))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ("judgements", "judgements"),
        ("concepts", "documents"),
        ("mates", "documents"),
        ("titles", "documents"),
        ("languages", "documents"),
        ("the migration", "default"),
        ("you", "you"),
        ("default", "default"),
    ],
)
def test_a_summary_is_known_as_an_earlier_versions(earlier: str, now: str) -> None:
    values = json.loads(json.dumps(earlier_summary(made(), earlier)))
    summary = Summary.from_json(values)
    assert summary.is_earlier
    assert (summary.decided_by, summary.balance, summary.mates) == (now, 0.3, None)
    assert summary.languages == {
        "de": {"documents": 40, "pseudo_queries": 40},
        "fr": {"documents": 5, "pseudo_queries": 5},
    }
    assert not Summary.from_json(Summary.of(made(), "documents").as_json()).is_earlier


def test_a_summary_of_one_encoder_has_no_weights() -> None:
    """The earlier version kept the weight of its only part, which is no setting."""
    assert Summary.from_json(earlier_summary(made(), "you")).weights == ()
    assert Summary.from_json(earlier_summary(made(), "you", weights=[0.2, 0.8])).weights == (0.2, 0.8)


def test_a_summary_keeps_what_is_said_of_its_maps_and_its_common_space() -> None:
    space = {"subjects": 853, "ridge": 3.0, "before": 0.7, "after": 0.73}
    maps = {"method": "lca", "before": "none", "unknown": ["ja"], "stands_in": True}
    summary = Summary.from_json(earlier_summary(made(), "mates", common_space=space, map=maps))
    assert summary.common_space is not None
    assert (summary.common_space.subjects, summary.common_space.after) == (853, 0.73)
    assert (summary.map, summary.migrated_from) == (maps, "none")


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


@pytest.mark.parametrize("summary", [SUMMARY, BARE, replace(SUMMARY, mates=MatesSummary(False, 0.1, None))])
def test_a_summary_comes_back_as_it_was(summary: Summary) -> None:
    """Through JSON, as the database keeps it."""
    assert Summary.from_json(json.loads(json.dumps(summary.as_json()))) == summary


def test_a_summary_says_what_there_is_not() -> None:
    values = BARE.as_json()
    assert (values["map"], values["mates"], values["common_space"]) == (None, None, None)


def test_a_summary_is_of_the_calibrations_balance_weights_and_languages() -> None:
    calibration = replace(fit_statistics(samples({"de": 40, "fr": 5}), "m"), balance=0.6)
    summary = Summary.of(calibration, "you")
    assert (summary.balance, summary.decided_by, summary.weights) == (0.6, "you", ())
    assert summary.few == summary.as_json()["few"] == {"fr": 5}
    assert summary.languages == {
        "de": {"documents": 40, "pseudo_queries": 40},
        "fr": {"documents": 5, "pseudo_queries": 5},
    }
    two = replace(calibration, vector_parts=VectorParts((5, 7), (0.3, 0.7)))
    assert Summary.of(two, "you").weights == (0.3, 0.7)


def test_a_migration_says_where_it_comes_from_and_leads_to() -> None:
    assert (SUMMARY.migrated_from, SUMMARY.migrated_to) == ("a", "b")
    assert (BARE.migrated_from, BARE.migrated_to) == ("", "")
    assert replace(BARE, map={"method": "lca"}).migrated_from == ""
