"""What the shell completes after Tab."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from encoders.folder.model_folder import ModelFolder
from query.cli import run
from trials import DEMO, ROOT
from trials.command import TOPICS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, word_model: ModelFolder) -> Path:
    """A home with two collections and an evaluation."""
    folder = tmp_path_factory.mktemp("completion")
    place, encoder = ["--home", str(folder), "-q"], ["--encoder", str(word_model.path), "--no-calibration"]
    for name, langs in {"news": "de tr", "notes": "tr"}.items():
        sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in langs.split()]
        assert run(["index", *sources, "-c", name, *encoder, *place]) == 0
    assert run(["evaluate", *TOPICS, "--langs", "de", "-c", "news", "--baseline", "none", *place]) == 0
    return folder


Complete = Callable[[str, Path], list[str]]


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """The names that bash is given for a command line after ``dragoman``; folders are left to the shell."""

    def complete(typed: str, home: Path) -> list[str]:
        places = {"DRAGOMAN_HOME": str(home), "DRAGOMAN_CACHE": str(home / "cache")}
        for name, value in {**_variables(typed), **places}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            run([])
        answers = [line.partition(",") for line in capsys.readouterr().out.splitlines()]
        return [value for kind, _, value in answers if kind == "plain"]

    return complete


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("mi", ["migrate"]),
        ("search x -c n", ["news", "notes"]),
        ("status -c no", ["notes"]),
        ("search x -c news --to ", ["de", "tr"]),
        ("search x -c news --to de,", ["de,de", "de,tr"]),
        ("search x -c notes --lang ", ["tr"]),
        ("index x -c c --encoder multi", ["multilingual-e5-small"]),
        ("runs show ", ["1", "1.de"]),
        ("runs show 1.", ["1.de"]),
        ("train hm", ["hmde"]),
    ],
)
def test_names_are_completed(typed: str, names: list[str], home: Path, completed: Complete) -> None:
    assert completed(typed, home) == names


def test_no_home_is_made_and_no_database_upgraded_by_tab(tmp_path: Path, completed: Complete) -> None:
    for option in ("", f"--database sqlite+pysqlite:///{tmp_path}/home/dragoman.db "):
        assert completed(f"search x {option}-c ", tmp_path / "home") == []
    assert not (tmp_path / "home").exists()
    with closing(sqlite3.connect(tmp_path / "dragoman.db")) as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('0000')")
        database.commit()
        assert completed("search x -c ", tmp_path) == []
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("alembic_version",)]


def test_completing_loads_no_encoder_and_no_sqlalchemy(home: Path) -> None:
    code = (
        "import sys\nfrom query.cli import root\n"
        "try:\n    root.main(prog_name='dragoman')\n"
        "finally:\n    print({'onnxruntime','sqlalchemy','torch','transformers'} & set(sys.modules), file=sys.stderr)\n"
    )
    environment = {**os.environ, **_variables("search x -c n"), "DRAGOMAN_HOME": str(home)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["plain,news", "plain,notes"], "set()\n")


def _variables(typed: str) -> dict[str, str]:
    words = f"dragoman {typed}"
    return {"_DRAGOMAN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
