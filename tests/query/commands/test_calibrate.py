"""``dragoman calibrate``: what a person decides, and what the command says of how it decided."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from encoders.console import Console
from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.calibration.calibration import BALANCE
from query.calibration.calibration_summary import CommonSpaceSummary, DecidedBy, MatesSummary, Summary
from query.calibration.calibration_table import StoredCalibration
from query.calibration_fitting.calibration_fit import CalibrationReport
from query.cli import run
from query.commands.output.calibrations import show_calibration
from tests.query.conftest import SOURCES, copied
from trials import DEMO

pytestmark = pytest.mark.parts

LANGUAGES = {lang: {"documents": 100, "pseudo_queries": 100} for lang in ("de", "en", "fi", "ja")}
MATES = MatesSummary(True, 0.98, 0.96, 120, 0.4, 0.5)
Shown = Callable[..., tuple[str, str]]


@pytest.fixture
def place(calibrated_by_words: Settings, tmp_path: Path) -> list[str]:
    """Options that name a copy of the calibrated collection."""
    return ["-c", "demo", "--home", str(copied(calibrated_by_words.home, tmp_path).home)]


def test_a_person_decides_the_balance(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for options, expected in (([], (BALANCE, "documents")), (["--balance", "1"], (1.0, "you"))):
        assert run(["calibrate", *options, "--json", "-q", *place]) == 0
        made = json.loads(capsys.readouterr().out)
        assert (made["balance"], made["decided_by"]) == expected
        assert made["mates"]["queries"] > 20
        assert (made["taken_over"], made["taught"]) == (False, {})


def test_a_balance_is_between_0_and_1_and_judgements_decide_it_too(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--balance", "1.5", *place]) == 2
    assert "1.5 is not in the range 0<=x<=1" in capsys.readouterr().err
    judged = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
    assert run(["calibrate", "--balance", "0", *judged, *place]) == 1
    assert "the topics decide the balance; leave the balance out" in capsys.readouterr().err


def test_the_list_and_the_status_show_how_calibrations_rank(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--balance", "0.25", *place]) == 0
    assert ", balance 0.25; decided by you\n" in capsys.readouterr().out
    assert run(["calibrate", "--list", *place]) == 0
    heads, _, first, second = capsys.readouterr().out.strip().splitlines()[-4:]
    assert heads.split() == ["calibration", "made", "(UTC)", "balance", "mates", "languages", "decided", "by"]
    assert first.split()[3:6] == ["0.75", "yes", "10"]
    assert second.split()[3:] == ["0.25", "10", "you", "active"]
    assert run(["status", *place]) == 0
    shown = capsys.readouterr().out
    assert ": balance 0.75, mates count, decided by documents" in shown
    assert ": balance 0.25, decided by you, active" in shown
    assert run(["status", "--json", *place]) == 0
    calibrations = json.loads(capsys.readouterr().out)["calibrations"]
    assert [(one["balance"], one["mates"]) for one in calibrations] == [(0.75, True), (0.25, False)]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """What the command writes of a calibration: its result, and its remarks."""

    def show(
        decided_by: DecidedBy,
        mates: MatesSummary | None = None,
        space: CommonSpaceSummary | None = None,
        weights: tuple[float, ...] = (),
    ) -> tuple[str, str]:
        summary = Summary(0.75, weights, LANGUAGES, decided_by, mates=mates, common_space=space)
        stored = StoredCalibration(
            "c0ffee", "model", dt.datetime(2026, 11, 1, tzinfo=dt.UTC), active=True, summary=summary
        )
        show_calibration(CalibrationReport(stored, taken_over=False, lost=""), "help", Console())
        said = capsys.readouterr()
        return said.out, said.err

    return show


def test_a_line_says_how_the_calibration_ranks(shown: Shown) -> None:
    assert shown("default") == (
        "help: calibration c0ffee, balance 0.75; decided by default: there was nothing to decide by\n",
        "",
    )
    out, err = shown("judgements", MATES, CommonSpaceSummary(300, 3.0, 0.4, 0.6), (0.3, 0.7))
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
    out, err = shown("documents", mates)
    assert err == sentence
    assert ("mates count" in out) == bool(mates and mates.count)


def test_index_says_how_the_calibration_ranks(
    word_model: ModelFolder, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [str(source) for source in SOURCES if source.name.split(".")[1] in {"de", "en", "fr"}]
    place = ["-c", "three", "--home", str(settings.home)]
    assert run(["index", *sources, "--encoder", str(word_model.path), *place]) == 0
    said = capsys.readouterr()
    assert run(["calibrate", "--list", "--json", *place]) == 0
    made = json.loads(capsys.readouterr().out)
    assert f"three: calibration {made['calibration']}, balance 0.75" in said.out
    assert f"{made['mates']['without']:.3f} without and {made['mates']['with_mates']:.3f} with them" in said.err
