"""What the code host, git and make read: citation, workflow, form for bug reports, hooks, extras."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.phrases import install_command
from query import __version__
from query.commands.program import program
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
    done = subprocess.run(
        [checker, "--builtin-schema", f"vendor.{schema}", ROOT / name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_citation_is_of_this_version_and_its_changelog_says_the_same_date() -> None:
    citation = _read("CITATION.cff")
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert f"\n## {__version__} – {citation['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_five_papers_are_cited_with_authors_year_and_address() -> None:
    papers = _read("CITATION.cff")["references"]
    assert [re.split(r"\W", paper["notes"])[0] for paper in papers] == ["HMDE", "LAWDR", "Cr5", "Maps", "T"]
    for paper in papers:
        assert all(author["family-names"] and author["given-names"] for author in paper["authors"]), paper["title"]
        assert paper["year"], paper["title"]
        assert paper.get("doi") or paper["url"], paper["title"]


def test_the_workflow_runs_what_decides_whether_a_change_lands_and_elasticsearch_of_an_older_version() -> None:
    job = _read(".github/workflows/ci.yml")["jobs"]["ci"]
    matrix = job["strategy"]["matrix"]
    assert job["steps"][-1]["run"] == ".ci/run ${{ matrix.targets }}"
    assert matrix["targets"] == [""]
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]
    assert [older["targets"] for older in matrix["include"]] == ["test-elastic-8"]
    assert "test-elastic-8: $(VENV)/.dev ##" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_hooks_run_lint_before_a_commit_and_the_quick_tests_before_a_push() -> None:
    (local,) = _read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    hooks = {hook["entry"]: (hook["language"], hook["stages"]) for hook in local["hooks"]}
    assert hooks == {"make lint": ("system", ["pre-commit"]), "make check": ("system", ["pre-push"])}


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


def test_a_program_that_the_shell_does_not_find_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
