"""The tiers keep their promises: what takes long, or asks for a real part, is not run by ``make check``."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trials import ROOT

_HOOKS = "pytest_addoption, pytest_collection_modifyitems, pytest_configure, pytest_ignore_collect"
_CONFTEST = f"from tests.tiers import {_HOOKS}\n"
_TESTS = """
import os
import sys
import time
import types

import pytest

from trials.servers.redis import RedisServer

NAP = float(os.environ["NAP"])


@pytest.fixture(scope="session")
def model():
    time.sleep(NAP)


@pytest.fixture
def redis():
    pass


@pytest.fixture
def elastic():
    pass


def test_quick(model):
    pass


def test_slow():
    time.sleep(NAP)


def test_hidden_server(tmp_path):
    server = RedisServer.__new__(RedisServer)
    server.folder, server.port = tmp_path, 1
    server.command = lambda: ["true"]
    server.answers = lambda: True
    server.start()
    server.kill()


def test_torch():
    sys.modules["torch"] = types.ModuleType("torch")


@pytest.mark.parts
def test_slow_with_a_part():
    time.sleep(NAP)


@pytest.mark.long
def test_long():
    time.sleep(NAP)


@pytest.mark.train
def test_training():
    time.sleep(NAP)


def test_server(redis):
    pass


def test_shared_elastic(elastic):
    pass


@pytest.mark.elastic
def test_own_elastic():
    pass
"""


def ran(folder: Path, *options: str, nap: float = 0.0) -> subprocess.CompletedProcess[str]:
    """pytest's run of the tests in a folder."""
    marks = ["-o", "markers=parts\nlong\ntrain\ntorch\nelastic"]
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:randomly", "-p", "no:cacheprovider", *marks, *options]
    environment = {"PYTHONPATH": str(ROOT), "NAP": str(nap)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def outcomes(folder: Path, nap: float, *options: str) -> tuple[dict[str, str], str]:
    """How each test ended, and what pytest printed."""
    (folder / "conftest.py").write_text(_CONFTEST)
    (folder / "test_it.py").write_text(_TESTS)
    done = ran(folder, *options, nap=nap)
    ends = (line.split(" - ")[0].partition(" test_it.py::") for line in done.stdout.splitlines())
    return {name: end for end, _, name in ends if name and end in {"PASSED", "FAILED"}}, done.stdout


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    """The tests as ``make check`` runs them, with a tenth of a second for each."""
    return outcomes(tmp_path_factory.mktemp("tiers"), 0.6, "-m", "not parts and not long", "--seconds", "0.1")


def test_check_runs_what_is_not_marked_and_asks_for_no_server(check: tuple[dict[str, str], str]) -> None:
    assert check[0].keys() == {"test_quick", "test_slow", "test_hidden_server", "test_torch"}


def test_a_slow_test_of_check_fails_and_the_message_says_which_tier_it_belongs_to(
    check: tuple[dict[str, str], str],
) -> None:
    assert check[0]["test_quick"] == "PASSED"  # what is made once for all tests is nobody's time
    assert check[0]["test_slow"] == "FAILED"
    assert re.search(r"took \d\.\d s, and a test of `make check` takes 0.1 s at most: mark it `parts`", check[1])


def test_a_test_of_check_that_imports_torch_fails(check: tuple[dict[str, str], str]) -> None:
    assert check[0]["test_torch"] == "FAILED"
    assert "imports torch, which `make check` does without" in check[1]


def test_a_file_that_imports_torch_fails_check(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST + "import sys\nsys.modules['torch'] = sys\n")
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    done = ran(tmp_path, "--seconds", "5")
    assert done.returncode == 1
    assert "a file of tests imports torch" in done.stdout


@pytest.mark.parametrize("marks", ["pytest.mark.torch", "[pytest.mark.torch, pytest.mark.train]"])
def test_a_file_that_is_torchs_as_a_whole_is_not_read_by_check(marks: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    text = f"import pytest\nimport sys\nsys.modules['torch'] = sys\npytestmark = {marks}\ndef test_it():\n    pass\n"
    (tmp_path / "test_it.py").write_text(text)
    assert "no tests ran" in ran(tmp_path, "--seconds", "5", "-m", "not parts and not long").stdout
    assert "1 passed" in ran(tmp_path).stdout


def test_a_test_of_check_that_starts_a_server_fails(check: tuple[dict[str, str], str]) -> None:
    assert check[0]["test_hidden_server"] == "FAILED"
    assert "a test of `make check` starts Redis: mark it `parts`" in check[1]


def test_the_tests_that_need_elasticsearch_can_be_run_alone(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 0, "-m", "elastic")[0].keys() == {"test_shared_elastic", "test_own_elastic"}


def test_without_a_choice_every_tier_is_run(tmp_path: Path) -> None:
    ends, _ = outcomes(tmp_path, 0)
    assert ends.pop("test_torch") == ends.pop("test_hidden_server") == "FAILED"
    passed = ("long", "own_elastic", "quick", "server", "shared_elastic", "slow", "slow_with_a_part", "training")
    assert ends == {f"test_{name}": "PASSED" for name in passed}
