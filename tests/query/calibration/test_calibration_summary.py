"""The summary of a calibration as JSON, in the database and for ``--json``."""

import json
from dataclasses import replace

import pytest

from encoders.methods.vector_parts import VectorParts
from query.calibration.calibration_summary import CommonSpaceSummary, MatesSummary, Summary
from query.calibration_fitting.language_statistics import fit_statistics
from tests.query.calibration.test_calibration import samples

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
