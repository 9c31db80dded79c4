"""Wrong inputs of every command and option."""

import shutil
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from tests.conftest import fallen
from trials.command import TOPICS
from trials.input_attacks import wrong_inputs


@pytest.mark.long
def test_a_wrong_input_is_refused_in_a_sentence(
    demo_by_words: Settings, word_model: ModelFolder, tmp_path: Path
) -> None:
    home, folder = Path(shutil.copytree(demo_by_words.home, tmp_path / "home")), tmp_path / "tried"
    folder.mkdir()
    assert run(["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "-q", "--home", str(home)]) == 0
    outcomes = list(wrong_inputs(home, word_model.path, folder, step=3))
    assert fallen(outcomes) == []
    assert len(outcomes) > 600
