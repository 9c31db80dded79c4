"""Commands of an ordinary user who has no right to a folder or a file."""

import shutil
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from query.cli import run
from tests.conftest import fallen
from trials import user_attacks
from trials.command import TOPICS


@pytest.fixture(scope="module")
def home(demo_by_words: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a logged evaluation."""
    home = Path(shutil.copytree(demo_by_words.home, tmp_path_factory.mktemp("rights") / "home"))
    assert run(["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "-q", "--home", str(home)]) == 0
    return home


@pytest.mark.parts
@pytest.mark.parametrize("what", ["a home that can't be written", "a source", "MPLCONFIGDIR"])
def test_what_a_user_has_no_right_to_is_a_sentence(
    what: str, home: Path, word_model: ModelFolder, tmp_path: Path
) -> None:
    assert fallen(user_attacks.without_rights(home, word_model.path, tmp_path, only=what)) == []


@pytest.mark.long
def test_no_missing_right_is_a_traceback(home: Path, word_model: ModelFolder, tmp_path: Path) -> None:
    assert fallen(user_attacks.without_rights(home, word_model.path, tmp_path)) == []
