"""What the code host, git and make read; and what is published is what was tested: the wheel."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.phrases import install_command
from query import __version__
from query.commands.demo import program
from tests.conftest import Patch
from trials import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("citation-file-format", "CITATION.cff"),
        ("github-workflows", ".github/workflows/ci.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug_report.yml"),
    ],
)
def test_it_fits_its_schema(schema: str, name: str) -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    subprocess.run([checker, "--builtin-schema", f"vendor.{schema}", ROOT / name], check=True)


def test_the_citation_is_of_this_version_and_its_changelog_says_the_same_date() -> None:
    citation = _read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    assert f"\n## {__version__} – {citation['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_workflow_runs_what_decides_whether_a_change_lands_and_elasticsearch_of_an_older_version() -> None:
    job = _read(".github/workflows/ci.yml")["jobs"]["ci"]
    matrix = job["strategy"]["matrix"]
    assert (job["steps"][-1]["run"], matrix["targets"]) == (".ci/run ${{ matrix.targets }}", [""])
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]
    assert [older["targets"] for older in matrix["include"]] == ["test-elastic-8"]
    assert "test-elastic-8: $(VENV)/.dev ##" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_make_alone_says_what_can_be_made() -> None:
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert [line.split()[1] for line in done.stdout.splitlines()] == phony[1].split()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("extras", "installed"),
    [("", "cpu"), ("elastic,serve", "cpu,elastic,serve"), ("serve,gpu", "gpu,serve"), ("cpu", "cpu")],
)
def test_make_installs_extras_with_one_onnx_runtime(extras: str, installed: str, tmp_path: Path) -> None:
    commands = _make(extras, tmp_path)
    assert f"-e '.[{installed}]'" in commands
    assert "uninstall" not in commands


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_onnx_runtime_for_cuda_stays_until_the_cpus_is_asked_for(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    (packages / "onnxruntime_gpu-1.27.0.dist-info").mkdir(parents=True)
    for target in ("lint", "bench", "docs"):
        commands = _make("", tmp_path, target)
        assert "-e '.[gpu," in commands
        assert "-e '.[cpu" not in commands
    assert "-e '.[gpu,elastic]'" in _make("elastic", tmp_path)
    assert re.search(r"uninstall .*onnxruntime onnxruntime-gpu\n.* -e '\.\[cpu\]'", _make("cpu", tmp_path))
    assert "-e '.[gpu12]'" in _make("gpu12", tmp_path)
    (packages / "onnxruntime_gpu-1.26.0.dist-info").mkdir()
    assert "-e '.[gpu12,elastic]'" in _make("elastic", tmp_path)
    (packages / "onnxruntime_gpu-1.26.0.dist-info").rmdir()
    (packages / "onnxruntime-1.27.0.dist-info").mkdir()
    assert re.search(r"uninstall .*onnxruntime onnxruntime-gpu\n.* -e '\.\[gpu\]'", _make("gpu", tmp_path))


def _make(extras: str, environment: Path, target: str = "install") -> str:
    """The commands of a target of ``make`` in an environment."""
    command = ["make", "-n", target, f"EXTRAS={extras}", f"VENV={environment}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_no_message_asks_for_a_package_that_is_not_published() -> None:
    sources = [file for room in ("encoders", "onnx_export", "indexer", "query") for file in (ROOT / room).rglob("*.py")]
    assert [file for file in sources if re.search(r"install '?dragoman", file.read_text(encoding="utf-8"))] == []
    assert install_command("train") == "make install EXTRAS=train"


def test_a_program_that_the_shell_does_not_find_is_named_by_its_path(tmp_path: Path, monkeypatch: Patch) -> None:
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    assert program() == f"{scripts}/python -m dragoman"
    own = scripts / "dragoman"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert program() == ".venv/bin/dragoman"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert program() == str(own)
    monkeypatch.setenv("PATH", f"{scripts}:/usr/bin:/bin")
    assert program() == "dragoman"


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
