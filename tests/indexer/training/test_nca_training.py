"""NCA's networks are trained with torch, which may be missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trials import ROOT

_WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from query.cli import run; sys.exit(run(sys.argv[1:]))"


@pytest.mark.parametrize("command", ["train mapping --method nca -o {out}", "mates --methods nca"])
def test_without_torch_a_sentence_says_what_to_install(tmp_path: Path, command: str) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text('{"id": "a", "text": "A house", "concept": "house"}\n', encoding="utf-8")
    arguments = [word.format(out=tmp_path / "map") for word in command.split()]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_TORCH, *arguments, str(source), "--encoder", "multilingual-e5-small", "-q"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == ("Error: this needs PyTorch and transformers; install them: make install EXTRAS=train\n")
