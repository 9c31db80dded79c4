"""The demo: indexed, made comparable, searched, scored and drawn, without a network."""

import io
import json
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from query.cli import run

pytestmark = pytest.mark.parts


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, default_folder: object) -> Path:
    """A home for the demo; its second run finds what the first one made."""
    return tmp_path_factory.mktemp("demo")


def _run(*arguments: object) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert run([*map(str, arguments), "-q"]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def said(home: Path) -> str:
    return _run("demo", "--home", home)


def test_it_shows_the_bias_and_in_each_fair_ranking_the_subject_in_several_languages(said: str) -> None:
    (plain, subjects), *fair = re.findall(r"… 5 hits: languages (\d+), subjects (\d)", said)
    assert (plain, subjects) == ("1", "5")
    assert all(int(languages) >= 8 for languages, _ in fair)
    assert [int(subjects) for _, subjects in fair] == [5, 3, 5]  # sleepless nights, electric cars, printing
    assert said.count("           also in ") >= 3


def test_it_says_what_the_calibration_gained_and_where_the_report_lies(said: str, home: Path) -> None:
    found = re.search(r"plain cosine, evaluation 1: MAP (\S+), own language (\d+)%", said)
    pooled = re.search(r"all, pooled +300 +(\S+)", said)
    assert found
    assert pooled
    assert float(pooled[1]) > 1.5 * float(found[1])
    assert int(found[2]) > 50
    assert "235 encoded" in said
    assert re.search(r"Searches are fair across 10 languages: own-language share \d\d?%, equal would be 10%\.\n", said)
    assert "Scoring 30 topics, asked in each of 10 languages" in said
    page = home / "demo-report.html"
    assert page.stat().st_mode & 0o777 == 0o600
    assert str(page) in said
    assert page.read_text(encoding="utf-8").count("<svg") == 3


def test_again_it_goes_on_with_what_is_there_and_speaks_json(said: str, home: Path) -> None:
    lines = [json.loads(line) for line in _run("demo", "--home", home, "--json").splitlines()]
    steps = [line["step"] for line in lines if "step" in line]
    assert steps == ["index", "calibrate", "search", "search", "search", "search", "report"]
    index, calibrated = lines[:2]
    assert (index["encoded"], index["unchanged"]) == (0, 235)
    assert calibrated["calibration"] is None
    assert [line["evaluation"] for line in lines if "evaluation" in line] == [3, 4]


def test_the_commands_it_ends_with_run_in_a_new_shell(said: str, home: Path) -> None:
    commands = re.findall(r"^  (\S.*?)(?:  .*)?$", said.partition("\nNext:\n")[2], re.MULTILINE)
    assert len(commands) == 7
    shell = {"PATH": "/usr/bin:/bin", "HOME": str(home), "DRAGOMAN_HOME": str(home)}
    status = next(command for command in commands if command.endswith(" status"))
    done = subprocess.run(["/bin/sh", "-c", status], env=shell, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo: 235 documents" in done.stdout
