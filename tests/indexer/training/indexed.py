"""A collection of what a trained encoder makes of the demo's documents."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run


def indexed_by(
    trained: ModelFolder, sources: Sequence[str], settings: Settings, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """Index the sources as the collection *mini*; the collection's status, as ``dragoman status --json`` prints it."""
    home = ["--home", str(settings.home)]
    assert run(["index", *sources, "-c", "mini", "--encoder", str(trained.path), "-q", *home]) == 0
    capsys.readouterr()
    assert run(["status", "-c", "mini", "--json", *home]) == 0
    status: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status
