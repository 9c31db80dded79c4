"""What is published is what was tested: the wheel, in an empty environment."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from trials import ROOT

UV = (sys.executable, "-m", "uv")


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make dist`` makes, by the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("dist")
    _run("make", "dist", f"--old-file={sys.prefix}/.dev", f"VENV={sys.prefix}", f"DIST={folder}")
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


def test_the_source_distribution_has_all_that_make_asks_for(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    assert {"Makefile", "mkdocs.yml", "pyproject.toml", ".ci/run", "docs/cli_page.py", "docs/page.png"} <= names
    assert {page.name for page in ROOT.glob("*.md")} | {"LICENSE", "CITATION.cff"} <= names


def test_the_wheel_has_the_public_name_and_the_four_rooms_with_migrations_demo_and_types(wheel: Path) -> None:
    names, rooms = set(zipfile.ZipFile(wheel).namelist()), {"dragoman", "encoders", "onnx_export", "indexer", "query"}
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == rooms
    assert "indexer/ledger/migrations/versions/0001_tables.py" in names
    assert {"query/demo/topics.tsv", "query/demo/docs.ja.jsonl"} <= names
    assert {f"{room}/py.typed" for room in rooms} <= names


@pytest.mark.long
def test_installed_alone_it_runs_and_says_which_extra_is_missing(wheel: Path, tmp_path: Path) -> None:
    _run(*UV, "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    _run(*UV, "pip", "install", "-q", "--python", python, wheel)

    def dragoman(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(tmp_path / "venv" / "bin" / "dragoman"), *arguments],
            cwd=tmp_path,
            env={"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "encoders").mkdir()
    for users_module in (tmp_path / "query.py", tmp_path / "encoders" / "__init__.py"):
        users_module.write_text("raise SystemExit('this is the module of the user')\n")
    assert dragoman("--version").stdout.startswith("dragoman 0.")
    assert "Everyday:" in dragoman("--help").stdout
    parts = ("torch", "onnxruntime", "celery", "elasticsearch")
    modules = f"import importlib.util as u; print([n for n in {parts} if u.find_spec(n)])"
    assert subprocess.run([str(python), "-c", modules], capture_output=True, text=True, check=True).stdout == "[]\n"
    for command, extra in ((["demo"], "cpu"), (["export", "some-model"], "train")):
        lacking = dragoman(*command)
        assert lacking.returncode == 1
        assert f"make install EXTRAS={extra}" in lacking.stderr

    _run(*UV, "pip", "install", "-q", "--python", python, f"{wheel}[cpu]")
    demo = dragoman("demo", "-q")
    assert demo.returncode == 0, demo.stderr
    assert "all, pooled" in demo.stdout

    (tmp_path / "a.jsonl").write_text('{"id": "a", "lang": "en", "text": "The river rose."}')
    elastic = dragoman("index", "a.jsonl", "-c", "c", "--store", "http://127.0.0.1:9/p")
    assert elastic.returncode == 1
    assert "make install EXTRAS=elastic" in elastic.stderr
