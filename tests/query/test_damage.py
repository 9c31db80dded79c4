"""A home whose files are damaged, or can't be written: sentences, and what can be shown is shown."""

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from encoders.folder.model_folder import ModelFolder
from indexer.collection.settings import Settings
from indexer.ledger.database import open_database, transaction
from query.cli import run
from tests.conftest import fallen
from trials.command import TOPICS
from trials.command_attacks import SHOWN, pages_of, zeroed_pages
from trials.database_accidents import unwritable

pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def home(calibrated_by_words: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a calibrated collection and a logged evaluation."""
    home = Path(shutil.copytree(calibrated_by_words.home, tmp_path_factory.mktemp("whole") / "home"))
    assert run(["evaluate", "-c", "demo", *TOPICS, "--langs", "de", "-q", "--home", str(home)]) == 0
    return home


@pytest.mark.parametrize("file", ["dragoman.db", "store/demo.db"])
@pytest.mark.parametrize("share", range(3))
def test_zeroed_pages_are_a_sentence(file: str, share: int, home: Path, tmp_path: Path) -> None:
    """Three neighbouring pages of every thirty, one of them in each test."""
    damaged = Path(shutil.copytree(home, tmp_path / "home"))
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
    table: str, column: str, command: list[str], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite itself notices no damage in the midst of a long value."""
    settings = Settings.read(home=shutil.copytree(home, tmp_path / "home"))
    with open_database(settings.database) as engine, transaction(engine) as session:
        session.execute(sa.text(f"UPDATE {table} SET {column} = zeroblob(100)"))  # noqa: S608
    assert run([*command, "-q", "--home", str(settings.home)]) == 1
    assert capsys.readouterr().err.startswith("Error: ")


def test_a_home_that_can_t_be_written_is_searched_and_shown(
    home: Path,
    word_model: ModelFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commands that must write are refused before their work: no document is read, and no encoder opened."""
    monkeypatch.setattr("query.calibration_fitting.calibration_fit.draw_samples", None)
    monkeypatch.setattr("query.migration.query_migration.open_named", None)
    try:
        with unwritable(home, tmp_path / "view"):
            for command in (*SHOWN, ["status"]):
                assert run([*command, "-q", "--home", str(tmp_path / "view")]) == 0, command
            capsys.readouterr()
            for command in (
                ["evaluate", "-c", "demo", *TOPICS, "--langs", "de"],
                ["calibrate", "-c", "demo"],
                ["migrate", "-c", "demo", "--encoder", str(word_model.path), "--method", "first"],
                ["delete", "x"],
                ["serve", "--log"],
            ):
                arguments = [*command, "-q", "--home", str(tmp_path / "view"), "-c", "demo"]
                assert run(arguments) == 1, command
                assert "written" in capsys.readouterr().err
    except PermissionError as error:
        pytest.skip(f"folders can't be mounted: {error}")
