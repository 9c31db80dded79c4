"""The unit of systemd, as far as it can be checked without systemd; a long test in ``test_containers.py`` runs it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docker.files import DOCKER, instructions
from trials import ROOT

UNIT = DOCKER / "dragoman@.service"


def _setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def test_user_and_folders_are_those_of_the_image() -> None:
    user = next(arguments for name, arguments in instructions() if name == "RUN" and "useradd" in arguments)
    assert f" {_setting('User')} " in user
    variables = dict(re.findall(r"(DRAGOMAN_\w+)=(\S+)", UNIT.read_text()))
    in_image = dict(re.findall(r"(DRAGOMAN_\w+)=(\S+)", (DOCKER / "Dockerfile").read_text()))
    assert variables == in_image
    assert variables["DRAGOMAN_HOME"] == f"/var/lib/{_setting('StateDirectory')}"
    assert variables["DRAGOMAN_CACHE"] == f"/var/cache/{_setting('CacheDirectory')}"


def test_the_guide_installs_what_the_unit_starts() -> None:
    guide = (ROOT / "docs/guides/systemd.md").read_text()
    (folder,) = re.findall(r"^sh docker/install.sh cpu (\S+)", guide, re.MULTILINE)
    assert _setting("ExecStart") == f"{folder}/bin/dragoman %i"
    assert f"useradd --system --home-dir /var/lib/dragoman --shell /usr/sbin/nologin {_setting('User')}\n" in guide
    assert _setting("EnvironmentFile") in guide


def test_the_guide_s_variables_have_nothing_behind_them_that_systemd_would_take_for_their_value() -> None:
    variables = re.findall(r"^[A-Z_]+=.*$", (ROOT / "docs/guides/systemd.md").read_text(), re.MULTILINE)
    assert len(variables) > 5
    assert not any(" " in variable for variable in variables)


def test_systemd_finds_nothing_to_say_about_it(tmp_path: Path) -> None:
    checker = shutil.which("systemd-analyze")
    if checker is None:
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / "dragoman@serve.service"
    unit.write_text(UNIT.read_text().replace("/opt/dragoman/bin/dragoman", "/bin/true"))
    done = subprocess.run([checker, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "dragoman@" in line]
    assert (done.returncode, said) == (0, [])
