"""The image: its files are well made, and what its steps install runs as a user without rights."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_or_fail
from tests.docker.files import DOCKER, instructions
from trials import ROOT

_BIN = Path(sys.executable).parent
_SCRIPTS = sorted([*DOCKER.rglob("*.sh"), *(ROOT / "trials").rglob("*.sh")])


def _run(*command: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def test_hadolint_and_shellcheck_find_nothing() -> None:
    for script in _SCRIPTS:
        shells = ("#!/bin/sh\n",) if DOCKER in script.parents else ("#!/bin/sh\n", "#!/bin/bash\n")
        assert script.read_text().startswith(shells), script
    for command in ([_BIN / "shellcheck", *_SCRIPTS], [_BIN / "hadolint", DOCKER / "Dockerfile"]):
        done = _run(*command)
        assert done.returncode == 0, done.stdout


def test_it_runs_as_a_user_without_rights_and_holds_no_builder() -> None:
    stages = [index for index, (name, _) in enumerate(instructions()) if name == "FROM"]
    last = instructions()[stages[-1] :]
    assert [arguments for name, arguments in last if name == "USER"] == ["10001:10001"]
    assert not any("pip install" in arguments or "apt-get" in arguments for _, arguments in last)
    assert not list(DOCKER.rglob("*.py"))


@pytest.mark.parts
def test_the_pinned_packages_are_all_that_install() -> None:
    """Else renew them with the command in the first lines of ``docker/constraints.txt``."""
    pinned = DOCKER / "constraints.txt"
    command = re.search(r"uv pip compile (.*) -o", pinned.read_text())
    assert command
    uv = sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-header", "-c", pinned
    done = _run(*uv, *command[1].split(), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [line for line in pinned.read_text().split("\n") if not line.startswith("#")]


def _python_for_everybody() -> str:
    """A Python that a user without rights may run: that of the tests can be in a home that is closed."""
    pythons = [str(Path(sys.executable).resolve()), "/usr/bin/python3"]
    runnable = [one for one in pythons if not _as_nobody(["/usr/bin/env", one, "--version"], {}).returncode]
    if not runnable:
        skip_or_fail("no Python here that the user 'nobody' may run: apt-get install python3")
    return runnable[0]


def _as_nobody(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    user, group = (65534, 65534) if os.geteuid() == 0 else (None, None)
    return _run(*command, cwd="/", env=environment, user=user, group=group, extra_groups=[] if user else None)


def _sent() -> list[str]:
    """What is sent to the builder."""
    return [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().split() if line[0] == "!"]


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A folder with ``dragoman``, made by the image's script from what is sent to the builder, and a ``home``."""
    with tempfile.TemporaryDirectory(prefix="dragoman-image-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        for name in _sent():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / "source" / name)
        (folder / "bin").mkdir()
        (folder / "bin" / "uv").symlink_to(_BIN / "uv")
        (folder / "bin" / "python3").symlink_to(_python_for_everybody())
        (folder / "home").mkdir(mode=0o777)
        (folder / "home").chmod(0o777)
        ((_, step),) = [one for one in instructions() if one[0] == "RUN" and "install.sh" in one[1]]
        (script,) = re.findall(r"\S*install\.sh", step)
        subprocess.run(
            ["sh", script, "cpu", folder / "dragoman"],
            cwd=folder / "source",
            env={**os.environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"},
            check=True,
        )
        yield folder


def test_what_the_script_installs_from_is_sent_to_the_builder() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {"pyproject.toml", "docker/install.sh", "docker/constraints.txt", *packages} <= set(_sent())
    assert all((ROOT / name).exists() for name in _sent())
    (extras,) = re.findall(r"\[\$runtime,([\w,]+)\]", (DOCKER / "install.sh").read_text())
    assert {"cpu", "gpu", *extras.split(",")} <= project["project"]["optional-dependencies"].keys()


@pytest.mark.long
def test_installed_by_its_script_it_indexes_and_searches_as_nobody_with_nothing_but_a_home(installed: Path) -> None:
    home, bin_folder = installed / "home", installed / "dragoman" / "bin"
    places = {"HOME": home, "DRAGOMAN_HOME": home / "data", "DRAGOMAN_CACHE": home / "cache"}
    environment = {"PATH": f"{bin_folder}:/usr/bin:/bin", **{name: str(place) for name, place in places.items()}}

    def dragoman(*arguments: str) -> str:
        done = _as_nobody(["dragoman", *arguments], environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    documents = installed / "docs.jsonl"
    texts = {"en": "The flood broke the bridge over the river.", "de": "Die Bäckerei öffnet morgens um sechs."}
    documents.write_text("".join(json.dumps({"id": lang, "lang": lang, "text": texts[lang]}) + "\n" for lang in texts))
    dragoman("index", str(documents), "-c", "news", "-q")
    found = dragoman("search", "Hochwasser", "-c", "news", "--lang", "de", "--calibration", "none", "--json")
    assert {hit["id"] for hit in json.loads(found)["hits"]} == {"en", "de"}
    modules = "elasticsearch", "orjson", "psycopg", "onnxruntime", "torch", "pytest"
    there = f"import importlib.util as u; print(*[n for n in {modules} if u.find_spec(n)])"
    done = _as_nobody([str(bin_folder / "python"), "-c", there], {})
    assert done.stdout.split() == ["elasticsearch", "orjson", "psycopg", "onnxruntime"]


def test_a_build_for_neither_cpu_nor_gpu_is_refused(tmp_path: Path) -> None:
    done = _run("sh", DOCKER / "install.sh", "tpu", tmp_path / "x")
    assert (done.returncode, done.stderr) == (2, "usage: install.sh cpu|gpu FOLDER\n")
    assert not (tmp_path / "x").exists()
