"""What ends ``dragoman attach --follow``, and what it goes on after; no server is needed for that."""

import io
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elasticsearch import ConnectionError as Away
from sqlalchemy.exc import OperationalError

from encoders.console import Console
from encoders.errors import BadInput, DragomanError, StoreError
from indexer.attaching.attached_collection import AttachedCollection
from indexer.attaching.catch_up import AttachReport
from query.calibration_fitting.recalibration import UpkeepReport
from query.cli import run
from query.commands import attach as attach_command

LOOKS = 6


def away(sentence: str = "it can't be reached", cause: Exception | None = None) -> StoreError:
    error = StoreError(sentence)
    error.__cause__ = cause or Away("refused")
    return error


@dataclass
class Followed:
    """An attached collection whose looks and calibrations fail as told; after ``most`` looks the user interrupts."""

    failures: dict[int, Exception] = field(default_factory=dict)
    calibration_fails: list[Exception] = field(default_factory=list)
    most: int = LOOKS
    looks: int = 0
    calibrations: int = 0
    collection: str = "help"
    console: Console = field(default_factory=Console)

    def catch_up(self) -> AttachReport:
        self.looks += 1
        if self.looks > self.most:
            raise KeyboardInterrupt
        if self.looks in self.failures:
            raise self.failures[self.looks]
        counts: dict[str, Any] = {"run": 1, "encoded": 5, "unchanged": 0, "removed": 0}
        return AttachReport(**counts, resumed=False, refused=[], behind=False, languages={"en": 9}, seconds=0.1)

    def calibrate(self, *_: Any, **__: Any) -> UpkeepReport:
        self.calibrations += 1
        if self.calibration_fails:
            raise self.calibration_fails.pop()
        return UpkeepReport(None, "it fits")


Follow = Callable[[Followed], int]


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Follow:
    def followed(told: Followed) -> int:
        @contextmanager
        def opened(*_: Any, **__: Any) -> Iterator[Followed]:
            yield told

        monkeypatch.setattr(AttachedCollection, "open", opened)
        monkeypatch.setattr(attach_command, "keep_calibrated", told.calibrate)
        return run(["attach", "-c", "help", "--follow", "--every", "0.1", "--home", str(tmp_path)])

    return followed


@pytest.mark.parametrize("failure", [KeyError("d7"), BadInput("too few documents"), StoreError("it is full")])
def test_a_calibration_that_fails_ends_nothing_and_is_made_later(
    follow: Follow,
    failure: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(attach_command, "_PAUSES", (0.0, 0.0))
    told = Followed(calibration_fails=[failure])
    assert follow(told) == 130
    assert told.calibrations > 2
    warnings = capsys.readouterr().err
    assert warnings.count("trying again") == 1
    assert str(failure) in warnings
    if not isinstance(failure, DragomanError):
        assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [failure]
        assert caplog.records[-1].levelno == logging.ERROR


def test_a_slow_or_failing_calibration_is_tried_less_often(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    told, clock, tries = Followed(most=24 * 120), [0], list[int]()

    def sleep(_: float) -> None:
        clock[0] += 30

    def calibrate(*_: Any, **__: Any) -> UpkeepReport:
        tries.append(clock[0])
        if len(tries) > 2:
            raise BadInput("too few documents")
        clock[0] += 40
        return UpkeepReport(None, "it fits")

    monkeypatch.setattr(attach_command, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: float(clock[0])))
    monkeypatch.setattr(told, "calibrate", calibrate)
    assert (follow(told), tries[:6]) == (130, [0, 400, 800, 860, 980, 1220])
    assert 24 < len(tries) < 34


@pytest.mark.parametrize(
    "failure", [KeyError("d7"), BadInput("there is no index help"), StoreError("it is blocked"), away()]
)
def test_a_bad_look_ends_nothing_and_it_says_how_to_go_on(
    follow: Follow, failure: Exception, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    told = Followed({2: failure, 3: failure})
    assert follow(told) == 130
    assert told.looks > LOOKS
    said = capsys.readouterr().err
    assert said.count("trying again") == 2
    assert said.count("looking every 0.1 s for new, changed and deleted documents; stop with Ctrl-C") == 1
    assert "Go on with: dragoman attach -c help --follow" in said


def test_the_first_look_waits_for_what_ends_by_itself_alone(follow: Follow, capsys: pytest.CaptureFixture[str]) -> None:
    database_away = away("the database can't be reached", OperationalError("SELECT 1", {}, Exception("refused")))
    assert follow(Followed({1: away(), 2: database_away})) == 130
    assert "the database can't be reached; trying again" in capsys.readouterr().err
    assert follow(Followed({1: BadInput("there is no index help")})) == 1
    assert follow(Followed({1: away(), 2: BadInput("there is no index help")})) == 1
    with pytest.raises(KeyError):
        follow(Followed({1: KeyError("d7")}))


def test_it_ends_where_nobody_reads_its_output_any_more(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.cli.sys", SimpleNamespace(stderr=io.StringIO()))
    assert follow(Followed({2: BrokenPipeError()})) == 0


def test_a_swallowed_interruption_ends_it(follow: Follow, interruptible: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some do, as while they are imported."""
    told = Followed()
    calibrate = told.calibrate

    def swallowing(*_: Any, **__: Any) -> UpkeepReport:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return calibrate()

    monkeypatch.setattr(told, "calibrate", swallowing)
    assert (follow(told), told.looks) == (130, 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
