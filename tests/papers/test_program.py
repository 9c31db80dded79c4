"""``python -m papers``: its help, and what all tables refuse."""

import subprocess
import sys
from pathlib import Path

import pytest

from papers.__main__ import run
from tests.conftest import Capture
from trials import ROOT


def _run(*typed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *typed], cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_runs_from_a_checkout() -> None:
    assert "Usage: python -m papers cr5" in _run("-m", "papers", "cr5").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["mappings", "--jrc", "x", "--methods", "nca"],
        ["tlaser", "--encoder", "x", "--mldoc", "x", "--classifier", "feed-forward"],
        ["hmde-clef", "--documents", "de=x", "--qrels", "de={qrels}", "--topics", "{topics}", "--method", "longformer"],
    ],
)
def test_without_torch_a_sentence_says_what_to_install(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 d 1\n")
    (tmp_path / "topics.tsv").write_text("qid\tlang\ttitle\n1\ten\tflood\n")
    typed = [word.format(qrels=tmp_path / "qrels", topics=tmp_path / "topics.tsv") for word in arguments]
    code = "import sys; sys.modules['torch'] = None; from papers.__main__ import run; sys.exit(run(sys.argv[1:]))"
    done = _run("-c", code, *typed, "-q")
    assert done.returncode == 1, done.stderr
    assert done.stderr == "Error: this needs PyTorch and transformers; install them: make install EXTRAS=train\n"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["lawdr", "--plot", "m.gif"], 1, "m.gif has none of the known endings"),
        (["mappings", "--jrc", ".", "--languages", ""], 2, "the value is empty; is a variable not set?"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], status: int, sentence: str, capsys: Capture) -> None:
    assert run(arguments) == status
    assert sentence in " ".join(capsys.readouterr().err.split())
