"""What the code host and git read: citation, workflow, form for bug reports, hooks."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from query import __version__
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


def test_the_workflow_runs_what_decides_whether_a_change_lands_from_the_oldest_python_on() -> None:
    job = _read(".github/workflows/ci.yml")["jobs"]["ci"]
    matrix = job["strategy"]["matrix"]
    assert job["steps"][-1]["run"] == ".ci/run ${{ matrix.targets }}"
    assert matrix["targets"] == [""]
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]


def test_the_workflow_runs_the_tests_that_use_elasticsearch_on_an_older_version_too() -> None:
    (job,) = _read(".github/workflows/ci.yml")["jobs"]["ci"]["strategy"]["matrix"]["include"]
    assert job["targets"] == "test-elastic-8"
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
