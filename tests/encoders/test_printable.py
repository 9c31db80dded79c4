"""What others wrote can't begin a line of a log, and can't command a terminal."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from encoders.console import Console
from encoders.printable import LineFormatter, json_line, one_line, printable
from encoders.table_layout import Table
from indexer.workers.logs import _LineFormatter

EVIL = "a\n2026-01-01 error forged: \x1b[2J\x1b]0;title\x07\r\x9b31m\x85\u2028\u202edcba \x7f\udc80"
CONTROLS = set("\x1b\x07\r\x9b\x85\u2028\u202e\x7f\udc80")


def record(message: str, *, failed: bool = False) -> logging.LogRecord:
    failure = None
    if failed:
        try:
            raise ValueError(EVIL)  # noqa: TRY301
        except ValueError:
            failure = sys.exc_info()
    return logging.LogRecord("dragoman", logging.ERROR, "file", 1, message, (), failure)


def test_text_keeps_its_letters_and_its_lines() -> None:
    text = "שלום \u200f日本語 😀\te\u0301\nnext"
    assert printable(text) == text
    assert one_line("é\tb\nc\x1b") == "é\\tb\\nc\\x1b"


@pytest.mark.parametrize("failed", [False, True])
def test_the_service_logs_a_line_for_an_event_and_indents_its_traceback(failed: bool) -> None:
    first, *others = LineFormatter().format(record(EVIL, failed=failed)).split("\n")
    assert "forged" in first
    assert bool(others) == failed
    assert all(line.startswith("  ") for line in others)
    assert not CONTROLS & set("".join([first, *others]))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("failed", [False, True])
def test_a_worker_logs_a_line_for_an_event(as_json: bool, failed: bool) -> None:
    line = _LineFormatter("worker-1", as_json=as_json).format(record(EVIL, failed=failed))
    assert not (CONTROLS | {"\n"}) & set(line)
    if as_json:
        assert json.loads(line)["event"].startswith(EVIL)


def test_json_has_the_same_value_without_control_characters() -> None:
    line = json_line({"title": EVIL})
    assert json.loads(line) == {"title": EVIL}
    assert not (CONTROLS | {"\n"}) & set(line)


def test_a_command_prints_no_control_character_of_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.say(EVIL)
    console.warn(EVIL)
    console.print(EVIL)
    console.print([Table(["id"], [[EVIL], ["[bold]a title[/bold] [link=x]"]])])
    Console(json=True).show({"id": EVIL})
    captured = capsys.readouterr()
    assert not CONTROLS & set(captured.out + captured.err)
    assert captured.err.count("\n") == 2
    assert "[bold]a title[/bold] [link=x]" in captured.out
