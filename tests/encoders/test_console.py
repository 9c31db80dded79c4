"""What a command says while it works."""

import io
import json
import logging
import re
import sys
import threading
from collections.abc import Sequence

import pytest

from encoders import console as console_module
from encoders.console import Console
from encoders.printable import LineFormatter, json_line, one_line, printable
from encoders.table_layout import Table, draw
from indexer.workers.logs import _LineFormatter


class Heard(Console):
    """Says nothing aloud; ``waited`` is set by the first sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def say(self, sentence: str) -> None:
        assert sentence == "reading …"
        self.waited.set()


def test_what_takes_long_is_said_meanwhile() -> None:
    console = Heard()
    with console.if_slow("reading …", after=0.0):
        assert console.waited.wait(10)


def test_what_is_quick_is_not_said() -> None:
    console = Heard()
    with console.if_slow("reading …", after=3600):
        pass
    assert not console.waited.is_set()


class Terminal(io.StringIO):
    """A terminal that tells when something turns on it."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "/" in text:  # the second sign
            self.turned.set()
        return super().write(text)


def test_at_a_terminal_a_sign_turns_while_one_waits_and_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console_module, "_SIGN_AFTER", 0.0)
    with Console().waiting("loading the encoder"):
        assert terminal.turned.wait(10)
    shown = terminal.getvalue()
    assert shown.startswith("\r| loading the encoder …\r/ loading the encoder …")
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize("total", [100, None])
def test_a_bar_ends_full_with_the_rate_of_the_whole_job(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Console().progress("indexing", total, "documents") as advance:
        for second in (19.9, 20.0):  # the last steps are quick
            clock[0] = second
            advance(50)
    last = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.getvalue()).splitlines()[-1]
    assert "100/100 documents" in last
    assert "5.0 documents/s" in last


@pytest.mark.parametrize("console", [Console(quiet=True), Console()])
def test_no_sign_turns_for_the_quiet_or_in_a_log(
    console: Console, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if console.quiet:
        monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(console_module, "_SIGN_AFTER", 0.0)
    with console.waiting("loading the encoder"):
        pass
    assert (capsys.readouterr().err, getattr(sys.stderr, "getvalue", str)()) == ("", "")


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


ROW = ["12.de-bm25", "a long name of a collection", "own-language@10", "0.123", "0.456"]
HEADINGS = ["run", "~name", "measure", ">first mean", ">second mean"]


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
        pytest.param(
            160,
            ["run", "~-tag", ">first mean"],
            ["1.de", "a tag", "0.5"],
            [["run   tag    first mean", "1.de  a tag         0.5"]],
            [],
            id="a table that fits is as wide as its texts",
        ),
        pytest.param(
            60,
            HEADINGS,
            ROW,
            [
                [
                    "first  second",
                    "run         name            measure           mean    mean",
                    "12.de-bm25  a long name of  own-language@10  0.123   0.456",
                    "a collection",
                ]
            ],
            [],
            id="folding columns and headings fold first",
        ),
        pytest.param(
            50,
            ["run", "-collection", "measure", "-tag", ">mean"],
            [*ROW[:3], "tag", "0.456"],
            [["run         measure          tag   mean", "12.de-bm25  own-language@10  tag  0.456"]],
            ["collection"],
            id="optional columns go before another table is needed",
        ),
        pytest.param(
            30,
            ["run", "lang", ">AP", ">P@10", ">R@100"],
            ["1.de", "de", "0.123", "0.456", "0.789"],
            [["run   lang     AP   P@10", "1.de  de    0.123  0.456"], ["run   lang  R@100", "1.de  de    0.789"]],
            [],
            id="what has no place stands in further tables that repeat the first columns",
        ),
        pytest.param(
            20,
            ["run", ">mean"],
            ["an-id-of-thirty-characters-here", "0.123"],
            [["run                               mean", "an-id-of-thirty-characters-here  0.123"]],
            [],
            id="a column wider than the terminal is whole nonetheless",
        ),
    ],
)
def test_a_table_in_a_terminal(
    width: int, headings: Sequence[str], row: Sequence[str], tables: list[list[str]], left_out: list[str]
) -> None:
    assert drawn(width, headings, row) == (tables, left_out)


def test_a_long_word_of_a_folding_column_leaves_room_for_figures() -> None:
    ((_, *lines),), _ = drawn(40, ["~query", ">MRR"], ["x" * 60, "0.123"])
    assert max(map(len, lines)) <= 40
    assert lines[0].endswith("0.123")


def test_a_table_without_rows_has_its_headings() -> None:
    file = io.StringIO()
    draw(Table(["run", ">mean"], []), file, 160, colours=False)
    assert "run  mean" in file.getvalue()
