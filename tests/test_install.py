"""How extras are installed: the command that messages give, and what it does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.phrases import install_command
from query.commands.program import program
from trials import ROOT


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("extras", "installed"),
    [
        ("", "cpu"),
        ("elastic,serve", "cpu,elastic,serve"),
        ("serve,gpu", "gpu,serve"),
        ("cpu", "cpu"),
    ],
)
def test_make_installs_extras_with_one_onnx_runtime(extras: str, installed: str, tmp_path: Path) -> None:
    commands = _make(extras, tmp_path)
    assert f"-e '.[{installed}]'" in commands
    assert "uninstall" not in commands


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_onnx_runtime_for_cuda_stays_until_the_cpus_is_asked_for(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    (packages / "onnxruntime_gpu-1.27.0.dist-info").mkdir(parents=True)
    assert "-e '.[gpu,elastic]'" in _make("elastic", tmp_path)
    assert re.search(r"uninstall .*onnxruntime onnxruntime-gpu\n.* -e '\.\[cpu\]'", _make("cpu", tmp_path))
    (packages / "onnxruntime-1.27.0.dist-info").mkdir()
    assert re.search(r"uninstall .*onnxruntime onnxruntime-gpu\n.* -e '\.\[gpu\]'", _make("gpu", tmp_path))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("target", ["lint", "bench", "docs"])
def test_other_targets_install_no_second_onnx_runtime(target: str, tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/onnxruntime_gpu-1.27.0.dist-info").mkdir(parents=True)
    commands = _make("", tmp_path, target)
    assert "-e '.[gpu," in commands
    assert "-e '.[cpu" not in commands


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
