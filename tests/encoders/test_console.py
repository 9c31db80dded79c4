"""What a command says while it works."""

import io
import re
import sys
import threading

import pytest

from encoders import console as console_module
from encoders.console import Console


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
