"""What the tests of trainings share: a folder made by the command, and what it is good for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from tests.conftest import Capture


def indexed_by(trained: ModelFolder, sources: Sequence[str], settings: Settings, capsys: Capture) -> dict[str, Any]:
    """Index the sources as the collection *mini*; the collection's status, as ``dragoman status --json`` prints it."""
    home = ["--home", str(settings.home)]
    assert run(["index", *sources, "-c", "mini", "--encoder", str(trained.path), "-q", *home]) == 0
    return printed(["status", "-c", "mini", "--json", *home], capsys)[0]


def train(method: str, sources: Sequence[str], target: Path, *options: str) -> ModelFolder:
    assert run(["train", method, *sources, "-o", str(target), *options, "-q"]) == 0
    return ModelFolder.open(target)


def printed(command: Sequence[str], capsys: Capture) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(list(command)) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refused(command: Sequence[str], capsys: Capture) -> str:
    """The one sentence by which a command is refused."""
    capsys.readouterr()
    assert run([*command, "-q"]) == 1
    (sentence,) = capsys.readouterr().err.strip().splitlines()
    return sentence
