"""Damaged files, missing rights and wrong inputs: sentences, and what can be shown is shown."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from query.cli import run
from tests.conftest import fallen
from tests.query.conftest import Command, copied
from trials import user_attacks
from trials.command import TOPICS
from trials.command_attacks import SHOWN, pages_of, zeroed_pages
from trials.database_accidents import unwritable
from trials.input_attacks import wrong_inputs

pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def home(calibrated_by_words: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a calibrated collection and a logged evaluation."""
    home = copied(calibrated_by_words.home, tmp_path_factory.mktemp("whole")).home
    assert run(["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "-q", "--home", str(home)]) == 0
    return home


@pytest.mark.parametrize("file", ["dragoman.db", "store/demo.db"])
@pytest.mark.parametrize("share", range(3))
def test_zeroed_pages_are_a_sentence(file: str, share: int, home: Path, tmp_path: Path) -> None:
    """Three neighbouring pages of every thirty, one of them in each test."""
    damaged = copied(home, tmp_path).home
    assert fallen(zeroed_pages(damaged, file, range(share, pages_of(damaged / file), 30))) == []


@pytest.mark.parametrize(
    ("table", "column", "command"),
    [
        ("calibrations", "artifact", ["search", "coffee", "-c", "demo", "--lang", "en"]),
        ("calibrations", "summary", ["status"]),
        ("evaluation_runs", "trec", ["runs", "export", "1"]),
        ("evaluation_runs", "means", ["runs", "list"]),
        ("index_runs", "sources", ["status"]),
    ],
)
def test_a_value_of_zeros_is_a_sentence(
    table: str, column: str, command: list[str], home: Path, tmp_path: Path, dragoman: Command
) -> None:
    """SQLite itself notices no damage in the midst of a long value."""
    settings = copied(home, tmp_path)
    with open_database(settings.database) as engine, transaction(engine) as session:
        session.execute(sa.text(f"UPDATE {table} SET {column} = zeroblob(100)"))  # noqa: S608
    assert dragoman(*command, "-q", "--home", settings.home, status=1).startswith("Error: ")


def test_a_home_that_can_t_be_written_is_searched_and_shown(
    home: Path, word_model: ModelFolder, tmp_path: Path, dragoman: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that must write are refused before their work: no document is read, and no encoder opened."""
    monkeypatch.setattr("query.calibration_fitting.calibration_fit.draw_samples", None)
    monkeypatch.setattr("query.migration.query_migration.open_named", None)
    try:
        with unwritable(home, tmp_path / "view"):
            for command in (*SHOWN, ["status"]):
                dragoman(*command, "-q", "--home", tmp_path / "view")
            for command in (
                ["evaluate", *TOPICS, "--langs", "de"],
                ["calibrate"],
                ["migrate", "--encoder", str(word_model.path), "--method", "first"],
                ["delete", "x"],
                ["serve", "--log"],
            ):
                place = ["-q", "--home", tmp_path / "view", "-c", "demo"]
                assert "written" in dragoman(*command, *place, status=1), command
    except PermissionError as error:
        pytest.skip(f"folders can't be mounted: {error}")


@pytest.mark.parametrize("what", ["a home that can't be written", "a source", pytest.param("", marks=pytest.mark.long)])
def test_a_missing_right_is_a_sentence(what: str, home: Path, word_model: ModelFolder, tmp_path: Path) -> None:
    assert fallen(user_attacks.without_rights(home, word_model.path, tmp_path, only=what)) == []


@pytest.mark.long
def test_a_wrong_input_is_refused_in_a_sentence(home: Path, word_model: ModelFolder, tmp_path: Path) -> None:
    own, folder = copied(home, tmp_path).home, tmp_path / "tried"
    folder.mkdir()
    outcomes = list(wrong_inputs(own, word_model.path, folder, step=3))
    assert fallen(outcomes) == []
    assert len(outcomes) > 600
