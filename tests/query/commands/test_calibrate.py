"""``dragoman calibrate``: what a person decides, and what the command says of how it decided."""

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from encoders.console import Console
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.calibration.calibration_summary import CommonSpaceSummary, DecidedBy, MatesSummary, Summary
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.calibration_fit import CalibrationReport
from query.commands.output.calibrations import show_calibration
from tests.query.conftest import SOURCES, Command
from trials.command import TOPICS

pytestmark = pytest.mark.parts

LANGUAGES = {lang: {"documents": 100, "pseudo_queries": 100} for lang in ("de", "en", "fi", "ja")}
MATES = MatesSummary(True, 0.98, 0.96, 120, 0.4, 0.5)
Shown = Callable[..., tuple[str, str]]


def test_a_balance_is_between_0_and_1_and_judgements_decide_it_too(on_demo: Command) -> None:
    assert "1.5 is not in the range 0<=x<=1" in on_demo("calibrate", "--balance", "1.5", status=2)
    said = on_demo("calibrate", "--balance", "0", *TOPICS, status=1)
    assert "the topics decide the balance; leave the balance out" in said


def test_the_list_and_the_status_show_how_calibrations_rank(home: Settings, dragoman: Command) -> None:
    place = ["-c", "demo"]
    assert ", balance 0.25; decided by you\n" in dragoman("calibrate", "--balance", "0.25", *place)
    first, second = dragoman("status", "--calibration", *place).strip().splitlines()
    assert first.endswith(", balance 0.75, mates count; decided by the collection's documents")
    assert second.endswith(", balance 0.25; decided by you; active")
    shown, values = dragoman("status", *place).strip(), dragoman.one("status", *place)
    calibrations = values["calibrations"]
    sentence = "  languages are balanced at 0.25 of 1; why, and earlier ones: dragoman status --calibration -c demo\n"
    assert re.match(r"demo: \d+ documents, languages: 10\n  ar .*\n  run 1 done: .*\n" + sentence, shown), shown
    last = f"{values['model']})\n  calibration {calibrations[1]['calibration']}\n\nhome: "
    assert last in shown[shown.index("  store ") :]
    assert [(one["balance"], one["mates"]) for one in calibrations] == [(0.75, True), (0.25, False)]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """What the command writes of a calibration: its result, and its remarks."""

    def show(decided_by: DecidedBy, weights: tuple[float, ...] = (), **of: Any) -> tuple[str, str]:
        summary, made = Summary(0.75, weights, LANGUAGES, decided_by, **of), dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
        stored = StoredCalibration("c0ffee", "model", made, active=True, summary=summary)
        show_calibration(CalibrationReport(stored, taken_over=False, lost=""), "help", Console())
        return capsys.readouterr()

    return show


def test_a_line_says_how_the_calibration_ranks(shown: Shown) -> None:
    said = "help: calibration c0ffee, balance 0.75; decided by default: there was nothing to decide by\n"
    assert shown("default") == (said, "")
    out, err = shown("judgements", (0.3, 0.7), mates=MATES, common_space=CommonSpaceSummary(300, 3.0, 0.4, 0.6))
    assert out == (
        "help: calibration c0ffee, balance 0.75, weights 0.3,0.7, common space, mates count; "
        "decided by your judgements\n"
    )
    assert err == (
        "a common space, learnt from 300 subjects: mates of pseudo-queries that taught nothing are found at a mean "
        "reciprocal rank of 0.600, without it 0.400\n"
    )


@pytest.mark.parametrize(
    ("mates", "sentence"),
    [
        (MATES, "mates count: the MAP of 120 held-out queries is 0.400 without and 0.500 with them\n"),
        (
            replace(MATES, count=False, with_mates=0.41),
            "mates don't count, as held-out queries lose by them: "
            "the MAP of 120 held-out queries is 0.400 without and 0.410 with them\n",
        ),
        (MatesSummary(False, 0.1, 0.3), "mates don't count: too few documents have sure mates to decide by\n"),
        (None, ""),
    ],
)
def test_a_sentence_says_why_mates_count_or_do_not(shown: Shown, mates: MatesSummary | None, sentence: str) -> None:
    out, err = shown("documents", mates=mates)
    assert (err, "mates count" in out) == (sentence, bool(mates and mates.count))


def test_index_says_how_the_calibration_ranks(word_model: ModelFolder, settings: Settings, dragoman: Command) -> None:
    sources = [source for source in SOURCES if source.name.split(".")[1] in {"de", "en", "fr"}]
    place = ["-c", "three", "--home", settings.home]
    out = dragoman("index", *sources, "--encoder", word_model.path, *place)
    err, (made,) = dragoman.err, dragoman.json("status", "--calibration", *place)
    assert "across 3 languages: own-language share " in out
    assert "MAP" not in err
    assert f"three: calibration {made['calibration']}, balance 0.75" in dragoman("status", "--calibration", *place)
    err = dragoman.err
    assert f"{made['mates']['without']:.3f} without and {made['mates']['with_mates']:.3f} with them" in err
