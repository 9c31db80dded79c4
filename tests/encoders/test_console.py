"""What a command says while it works."""

import io
import json
import logging
import re
import sys
import threading
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from encoders import console as console_module
from encoders.console import Console
from encoders.printable import LineFormatter, json_line, one_line, printable
from encoders.table_layout import Table, draw
from indexer.workers.logs import _LineFormatter
from onnx_export.training.training_progress import TrainingProgress
from tests.conftest import Capture, Patch


class Heard(Console):
    """Says nothing aloud; ``waited`` is set by the first sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def say(self, sentence: str) -> None:
        assert sentence == "reading …"
        self.waited.set()


def test_what_takes_long_is_said_meanwhile_and_what_is_quick_is_not_said() -> None:
    slow, quick = Heard(), Heard()
    with slow.if_slow("reading …", after=0.0):
        assert slow.waited.wait(10)
    with quick.if_slow("reading …", after=3600):
        pass
    assert not quick.waited.is_set()


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.turned = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "/" in text:  # the second sign
            self.turned.set()
        return super().write(text)


def test_at_a_terminal_a_sign_turns_while_one_waits_and_goes_at_the_end(monkeypatch: Patch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console_module, "_SIGN_AFTER", 0.0)
    with Console().waiting("loading the encoder"):
        assert terminal.turned.wait(10)
    shown = terminal.getvalue()
    assert shown.startswith("\r| loading the encoder …\r/ loading the encoder …")
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize("total", [100, None])
def test_a_bar_ends_full_with_the_rate_of_the_whole_job(total: int | None, monkeypatch: Patch) -> None:
    terminal, clock = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "50")  # the bar gives way to the words
    with Console().progress("indexing", total, "documents") as advance:
        for second in (19.9, 20.0):  # the last steps are quick
            clock[0] = second
            advance(50)
    last = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.getvalue()).splitlines()[-1]
    assert re.search(r"━ 100/100 documents 5\.0/s \d:\d\d:\d\d$", last.rstrip())


@pytest.mark.parametrize("console", [Console(quiet=True), Console()])
def test_no_sign_turns(console: Console, monkeypatch: Patch, capsys: Capture) -> None:
    if console.quiet:
        monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(console_module, "_SIGN_AFTER", 0.0)
    with console.waiting("loading the encoder"):
        pass
    assert (capsys.readouterr().err, getattr(sys.stderr, "getvalue", str)()) == ("", "")


EVIL = "a\n2026-01-01 error forged: \x1b[2J\x1b]0;title\x07\r\x9b31m\x85\u2028\u202edcba \x7f\udc80"
CONTROLS = set("\x1b\x07\r\x9b\x85\u2028\u202e\x7f\udc80")


def record(message: str, *, failed: bool = False) -> logging.LogRecord:
    error = ValueError(EVIL)
    failure = (ValueError, error, None) if failed else None
    return logging.LogRecord("dragoman", logging.ERROR, "file", 1, message, (), failure)


def test_text_keeps_its_letters_and_its_lines_and_json_its_value() -> None:
    text = "שלום \u200f日本語 😀\te\u0301\nnext"
    assert (printable(text), one_line("é\tb\nc\x1b")) == (text, "é\\tb\\nc\\x1b")
    line = json_line({"title": EVIL})
    assert json.loads(line) == {"title": EVIL}
    assert not (CONTROLS | {"\n"}) & set(line)


@pytest.mark.parametrize("failed", [False, True])
def test_the_service_and_a_worker_log_a_line_for_an_event_and_the_service_indents_its_traceback(failed: bool) -> None:
    first, *others = LineFormatter().format(record(EVIL, failed=failed)).split("\n")
    assert "forged" in first
    assert bool(others) == failed
    assert all(line.startswith("  ") for line in others)
    assert not CONTROLS & set("".join([first, *others]))
    for as_json in (False, True):
        line = _LineFormatter("worker-1", as_json=as_json).format(record(EVIL, failed=failed))
        assert not (CONTROLS | {"\n"}) & set(line)
        assert not as_json or json.loads(line)["event"].startswith(EVIL)


def test_a_command_prints_no_control_character_of_a_document(capsys: Capture) -> None:
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


ROW = ["12.de-bm25", "a long name of a collection", "own-language@10", "0.123", "0.456"]
HEADINGS = ["run", "~name", "measure", ">first mean", ">second mean"]
FOLDED = """first  second
run         name            measure           mean    mean
12.de-bm25  a long name of  own-language@10  0.123   0.456
a collection""".splitlines()
"""Columns and headings that may fold do so first."""


def drawn(width: int, headings: Sequence[str], row: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The lines of each table that is drawn, without rules and margins, and the columns that are left out."""
    file = io.StringIO()
    left_out = draw(Table(headings, [row]), file, width, colours=False)
    tables: list[list[str]] = []
    for line in map(str.strip, file.getvalue().splitlines()):
        if not line:
            tables.append([])
        elif "─" not in line:
            tables[-1].append(line)
    return [table for table in tables if table], left_out


@pytest.mark.parametrize(
    ("width", "headings", "row", "tables", "left_out"),
    [
        (60, HEADINGS, ROW, [FOLDED], []),
        (  # optional columns go before another table is needed
            50,
            ["run", "-collection", "measure", "-tag", ">mean"],
            [*ROW[:3], "tag", "0.456"],
            [["run         measure          tag   mean", "12.de-bm25  own-language@10  tag  0.456"]],
            ["collection"],
        ),
        (  # what has no place stands in further tables that repeat the first columns
            30,
            ["run", "lang", ">AP", ">P@10", ">R@100"],
            ["1.de", "de", "0.123", "0.456", "0.789"],
            [["run   lang     AP   P@10", "1.de  de    0.123  0.456"], ["run   lang  R@100", "1.de  de    0.789"]],
            [],
        ),
        (  # a column wider than the terminal is whole nonetheless
            20,
            ["run", ">mean"],
            ["an-id-of-thirty-characters-here", "0.123"],
            [["run                               mean", "an-id-of-thirty-characters-here  0.123"]],
            [],
        ),
    ],
)
def test_a_table_in_a_terminal(
    width: int, headings: Sequence[str], row: Sequence[str], tables: list[list[str]], left_out: list[str]
) -> None:
    assert drawn(width, headings, row) == (tables, left_out)


def test_a_long_word_of_a_folding_column_leaves_room_for_figures_and_a_table_without_rows_has_its_headings() -> None:
    ((_, *lines),), _ = drawn(40, ["~query", ">MRR"], ["x" * 60, "0.123"])
    assert max(map(len, lines)) <= 40
    assert lines[0].endswith("0.123")
    file = io.StringIO()
    draw(Table(["run", ">mean"], []), file, 160, colours=False)
    assert "run  mean" in file.getvalue()


@pytest.mark.parametrize(("units", "rate"), [(8, "0.4"), (128, "6.4"), (200_000, "10,000")])
def test_a_slow_training_has_a_rate_too(units: int, rate: str, monkeypatch: Patch, capsys: Capture) -> None:
    now = 100.0
    # the clock of this module alone: with the process's clock the event loop of a running service would sleep for hours
    monkeypatch.setattr("onnx_export.training.training_progress.time", SimpleNamespace(monotonic=lambda: now))
    progress = TrainingProgress(Console(), 4, 10)
    now += 20
    progress(0.25, triples=units, tokens=0)
    assert capsys.readouterr().err == f"step 5/10, loss 0.250, {rate} triples/s, 0:01:40 left\n"
    now += 20
    progress(0.25, triples=units, tokens=8_000)
    assert capsys.readouterr().err == f"step 6/10, loss 0.250, {rate} triples/s, 200 tokens/s, 0:01:20 left\n"
