"""The summary of a calibration as JSON, in the database and for ``--json``."""

import json
from dataclasses import replace

from query.calibration.calibration_choice import CalibrationChoice, TriedChoice
from query.calibration.summary import CommonSpaceSummary, MatesSummary, Separability, Summary

CHOICE = CalibrationChoice(
    rank=2, margin="distance", balance=0.3, weights=(0.2, 0.8), lift=0.95, bar=0.7, second_look=True
)
SUMMARY = Summary(
    CHOICE,
    3,
    {"de": {"documents": 40, "pseudo_queries": 30}},
    "mates",
    [TriedChoice(CHOICE, 0.5, 0.4, 0.3, chosen=True), TriedChoice(replace(CHOICE, lift=0.0), 0.4, 0.3, 0.3)],
    separability=Separability(0.9, 2, 0.6),
    mates=MatesSummary(0.75, 0.95, 1.1),
    common_space=CommonSpaceSummary(853, 3.0, 0.7, 0.73),
)


def stored(summary: Summary) -> dict[str, object]:
    """The summary as it is read from the database."""
    values: dict[str, object] = json.loads(json.dumps(summary.as_json()))
    return values


def test_a_summary_comes_back_as_it_was() -> None:
    assert Summary.from_json(stored(SUMMARY)) == SUMMARY


def test_in_a_summary_that_knows_nothing_of_mates_they_do_not_count() -> None:
    """As an earlier version wrote it."""
    earlier = stored(SUMMARY)
    rows = earlier["probe"]
    assert isinstance(rows, list)
    for values in (earlier, *rows):
        for name in ("lift", "bar", "second_look"):
            del values[name]
    del earlier["mates"], earlier["common_space"]
    summary = Summary.from_json(earlier)
    assert summary.choice == replace(CHOICE, lift=0.0, bar=0.5, second_look=False)
    assert {tried.choice for tried in summary.tried} == {summary.choice}
    assert summary.mates is None
    assert summary.common_space is None


def test_a_summary_without_mined_mates_says_nothing_of_them() -> None:
    assert "mates" not in replace(SUMMARY, mates=None).as_json()
