"""``dragoman calibrate``: what a person decides about mates, and what the command says of how it decided."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from encoders.console import Console
from encoders.folder import ModelFolder
from indexer.collection.settings import Settings
from query.calibration.calibration_choice import DEFAULT, CalibrationChoice, TriedChoice
from query.calibration.summary import MatesSummary, Summary
from query.calibration.table import StoredCalibration
from query.cli import run
from query.commands.output.calibrations import show_calibration
from query.fitting.calibrate import CalibrationReport
from query.fitting.calibration_decision import Decision
from tests.query.conftest import SOURCES, copied

LANGUAGES = {lang: {"documents": 100, "pseudo_queries": 100} for lang in ("de", "en", "fi", "ja")}
Shown = Callable[..., tuple[str, str]]


@pytest.fixture
def place(calibrated_by_words: Settings, tmp_path: Path) -> list[str]:
    """Options that name a copy of the calibrated collection."""
    return ["-c", "demo", "--home", str(copied(calibrated_by_words.home, tmp_path).home)]


def test_a_person_decides_by_how_much_mates_lift(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for share, look in ((0.5, "--no-second-look"), (0.0, "--second-look")):
        assert run(["calibrate", "--lift", str(share), look, "--json", "-q", *place]) == 0
        made = json.loads(capsys.readouterr().out)
        expected = (share, look == "--second-look", DEFAULT.balance)
        assert (made["lift"], made["second_look"], made["balance"]) == expected
        assert (made["decided_by"], made["mates"]) == ("you", None)
    assert run(["calibrate", "--balance", "1", "--json", "-q", *place]) == 0
    assert json.loads(capsys.readouterr().out)["lift"] == DEFAULT.lift


def test_a_share_is_between_0_and_1_and_judgements_decide_it_too(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--lift", "1.5", *place]) == 2
    assert "1.5 is not in the range 0<=x<=1" in capsys.readouterr().err
    assert run(["calibrate", "--lift", "0", "--topics", "t.tsv", "--qrels", "q.txt", *place]) == 2
    assert "--topics decides how to rank" in capsys.readouterr().err


def test_the_list_and_the_status_show_by_how_much_mates_lift(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", "--lift", "0.5", *place]) == 0
    assert "the language mean taken out, mates lift by 0.5; decided by you" in capsys.readouterr().out
    assert run(["calibrate", "--list", *place]) == 0
    listed = capsys.readouterr().out
    assert "lift" in listed
    assert "0.5" in listed
    assert run(["status", *place]) == 0
    assert "ratio margin, lift 0.5, decided by you, active" in capsys.readouterr().out
    assert run(["status", "--json", *place]) == 0
    active = json.loads(capsys.readouterr().out)["calibrations"][-1]
    assert (active["lift"], active["bar"], active["second_look"]) == (0.5, DEFAULT.bar, DEFAULT.second_look)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What the command writes of a calibration: its result, and its remarks."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(decided_by: str, tried: Sequence[TriedChoice], mates: MatesSummary | None = None) -> tuple[str, str]:
        choice = next((trial.choice for trial in tried if trial.chosen), DEFAULT)
        summary = Summary(choice, 3, LANGUAGES, decided_by, tried, mates=mates)
        stored = StoredCalibration(
            "c0ffee", "model", dt.datetime(2026, 11, 1, tzinfo=dt.UTC), active=True, summary=summary
        )
        report = CalibrationReport(stored, Decision(choice, decided_by, tried=tried, mates=mates), lost="")
        show_calibration(report, "help", Console())
        said = capsys.readouterr()
        return said.out, said.err

    return show


def trial(own_language: float, *, chosen: bool = False, **settings: Any) -> TriedChoice:
    return TriedChoice(replace(DEFAULT, **settings), 0.5, 0.4, own_language, chosen)


def test_the_table_shows_settings_of_mates_that_vary(shown: Shown) -> None:
    out, _ = shown("mates", [trial(0.3, chosen=True), trial(0.3, lift=0.5)])
    assert "MAP" in out
    assert "lift" in out
    assert "bar" not in out
    assert "look" not in out
    out, _ = shown("mates", [trial(0.3, chosen=True, second_look=False), trial(0.3, bar=0.7, second_look=True)])
    assert "bar" in out
    assert "look" in out
    assert max(map(len, out.splitlines()[:8])) <= 80


def test_the_own_language_share_stands_beside_the_equal_share_and_the_ends_of_the_dial(shown: Shown) -> None:
    balances = [trial(0.36, balance=1.0), trial(0.9, balance=0.0), trial(0.6, balance=0.5)]
    _, err = shown("concepts", [trial(0.45, chosen=True), *balances, trial(0.25, balance=0.9, lift=0.5)])
    assert (
        "own language 45% of the first 4 hits that are not answers, 25% would be equal; "
        "with --balance 0: 90%; with --balance 1: 36%\n"
    ) in err
    _, err = shown("concepts", [trial(0.26, chosen=True), trial(0.25, balance=1.0)])
    assert "own language 26% of the first 4 hits that are not answers, 25% would be equal\n" in err
    _, err = shown("default", [])
    assert "own language" not in err


@pytest.mark.parametrize(
    ("decided_by", "confirmed", "sentence"),
    [
        (
            "mates",
            0.96,
            "98% of documents have a mate that a third language confirms; 96% of the mates checked are confirmed",
        ),
        ("mates", None, "98% of documents have a mate in the other language; there is no third to confirm it"),
        ("titles", 0.96, "too few or too unsure to decide by"),
    ],
)
def test_how_many_documents_have_mates_is_said_where_mates_were_mined(
    shown: Shown, decided_by: str, confirmed: float | None, sentence: str
) -> None:
    _, err = shown(decided_by, [trial(0.3, chosen=True)], MatesSummary(0.98, confirmed, 1.1))
    assert f"mates: {sentence}\n" in err
    _, err = shown(decided_by, [trial(0.3, chosen=True)])
    assert "mates:" not in err


def test_a_calibration_without_lift_says_nothing_of_mates(shown: Shown) -> None:
    out, _ = shown("titles", [TriedChoice(CalibrationChoice(lift=0.0), 0.5, 0.4, 0.3, chosen=True)])
    assert "mates lift" not in out


def test_index_says_what_the_calibration_reached(
    word_model: ModelFolder, settings: Settings, quick_probe: None, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [str(source) for source in SOURCES if source.name.split(".")[1] in {"de", "en", "fr"}]
    place = ["-c", "three", "--home", str(settings.home)]
    assert run(["index", *sources, "--encoder", str(word_model.path), *place]) == 0
    err = capsys.readouterr().err
    assert run(["calibrate", "--list", "--json", *place]) == 0
    shares = json.loads(capsys.readouterr().out)["own_language"]
    assert (shares["hits"], shares["equal"]) == (3, pytest.approx(1 / 3))
    assert {"0", "1"} <= shares["by_balance"].keys()
    assert shares["by_balance"]["0"] > shares["reached"]
    assert (
        f"own language {shares['reached']:.0%} of the first 3 hits that are not answers, 33% would be equal; "
        f"with --balance 0: {shares['by_balance']['0']:.0%}"
    ) in err
    assert run(["calibrate", "--json", "-q", *place]) == 0
    assert json.loads(capsys.readouterr().out)["own_language"] == shares
