"""The image, the Compose file and the unit of systemd, as far as they can be checked without Docker and systemd."""

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
from tests.docker.files import DOCKER, compose, instructions, readme_commands
from trials import ROOT

_BIN = Path(sys.executable).parent
_SCRIPTS = sorted([*DOCKER.rglob("*.sh"), *(ROOT / "trials").rglob("*.sh")])
SERVICES = compose()["services"]
ONE_SHOT = {"setup", "account", "dragoman", "dragoman-gpu", "publisher"}


def _set_in(env: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", env.read_text(), re.MULTILINE))


def _run(*command: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def test_the_compose_file_fits_the_specification_and_hadolint_and_shellcheck_find_nothing() -> None:
    for script in _SCRIPTS:
        shells = ("#!/bin/sh\n",) if DOCKER in script.parents else ("#!/bin/sh\n", "#!/bin/bash\n")
        assert script.read_text().startswith(shells), script
    schema: list[str | Path] = ["--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yml"]
    scripts: list[str | Path] = [*_SCRIPTS]
    for name, given in (("check-jsonschema", schema), ("shellcheck", scripts), ("hadolint", [DOCKER / "Dockerfile"])):
        done = _run(_BIN / name, *given)
        assert done.returncode == 0, done.stdout


def test_its_variables_are_those_of_the_example_in_which_the_readme_s_command_fills_passwords(tmp_path: Path) -> None:
    used = re.findall(r"\$\{(\w+):([-?])([^}]*)\}", (DOCKER / "compose.yml").read_text())
    example = _set_in(DOCKER / ".env.example")
    assert {name for name, _, _ in used} == set(example)
    required = {(name, example[name]) for name, kind, _ in used if kind == "?"}
    assert required == {(name, "") for name in example if name.endswith("_PASSWORD")}
    assert all(example[name] == default for name, kind, default in used if kind == "-")
    shutil.copy(DOCKER / ".env.example", tmp_path)
    (command,) = readme_commands("(umask")
    subprocess.run(["sh", "-c", f"(umask{command}"], cwd=tmp_path, check=True)
    filled = _set_in(tmp_path / ".env")
    passwords = {filled.pop(name) for name in list(filled) if name.endswith("_PASSWORD")}
    assert len(passwords) == 5
    assert all(re.fullmatch(r"[0-9a-f]{32}", password) for password in passwords)
    assert filled == {name: value for name, value in example.items() if value}
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_every_image_has_its_version_and_named_volumes_are_declared_and_used() -> None:
    images = [service["image"] for service in SERVICES.values()]
    images += [arguments.split()[0] for name, arguments in instructions() if name == "FROM"]
    foreign = {image for image in images if not image.startswith("dragoman:")}
    assert foreign
    assert all(re.search(r":\d+\.\d+", image) for image in foreign)
    assert not any("latest" in image for image in images)
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {mount for mount in mounts if mount.isalpha()} == set(compose()["volumes"])


def test_services_have_bounds_and_few_rights_and_those_that_run_for_long_are_watched() -> None:
    def having(name: str) -> set[str]:
        return {service for service in SERVICES if name in SERVICES[service]}

    assert SERVICES.keys() - having("mem_limit") == {"setup", "account"}
    assert having("user") == {"setup"}  # the only root, for new volumes
    assert SERVICES["setup"]["network_mode"] == "none"
    ports = [port for name in having("ports") for port in SERVICES[name]["ports"]]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert having("restart") == SERVICES.keys() - ONE_SHOT
    for name in having("restart"):
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD", name
        assert SERVICES[name]["restart"] == "unless-stopped", name


def test_the_gpu_builds_differ_in_the_runtime_and_all_they_wait_for_starts_with_them() -> None:
    def differing(cpu: dict[str, Any], gpu: dict[str, Any]) -> set[str]:
        return {name for name in gpu if gpu[name] != cpu.get(name)}

    cpu, gpu, worker, gpu_worker = (SERVICES[name] for name in ("dragoman", "dragoman-gpu", "worker", "worker-gpu"))
    of_build = {"profiles", "image", "build", "deploy"}
    assert differing(cpu, gpu) == of_build
    assert (cpu["build"]["args"], gpu["build"]["args"]) == ({"RUNTIME": "cpu"}, {"RUNTIME": "gpu"})
    assert differing(worker, gpu_worker) == {*of_build, "command"}
    assert all(gpu_worker[name] == gpu[name] for name in of_build)
    assert gpu_worker["command"] == [*worker["command"], "--device", "cuda"]
    for name in gpu_worker["depends_on"]:
        assert set(gpu_worker["profiles"]) <= set(SERVICES[name].get("profiles", gpu_worker["profiles"])), name


UNIT = DOCKER / "dragoman@.service"


def _setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def test_user_folders_and_command_of_the_unit_are_those_of_the_image_and_of_the_guide() -> None:
    user = next(arguments for name, arguments in instructions() if name == "RUN" and "useradd" in arguments)
    assert f" {_setting('User')} " in user
    variables = dict(re.findall(r"(DRAGOMAN_\w+)=(\S+)", UNIT.read_text()))
    assert variables == dict(re.findall(r"(DRAGOMAN_\w+)=(\S+)", (DOCKER / "Dockerfile").read_text()))
    assert variables["DRAGOMAN_HOME"] == f"/var/lib/{_setting('StateDirectory')}"
    assert variables["DRAGOMAN_CACHE"] == f"/var/cache/{_setting('CacheDirectory')}"
    guide = (ROOT / "docs/guides/systemd.md").read_text()
    (folder,) = re.findall(r"^sh docker/install.sh cpu (\S+)", guide, re.MULTILINE)
    assert _setting("ExecStart") == f"{folder}/bin/dragoman %i"
    assert f"useradd --system --home-dir /var/lib/dragoman --shell /usr/sbin/nologin {_setting('User')}\n" in guide
    assert _setting("EnvironmentFile") in guide
    settings = re.findall(r"^[A-Z_]+=.*$", guide, re.MULTILINE)
    assert len(settings) > 5
    assert not any(" " in setting for setting in settings)  # systemd would take what follows for the value


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
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
        command = ["sh", script, "cpu", folder / "dragoman"]
        subprocess.run(command, cwd=folder / "source", env=environment, check=True)
        yield folder


def test_what_the_script_installs_from_is_sent_to_the_builder_and_other_builds_are_refused(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {"pyproject.toml", "docker/install.sh", "docker/constraints.txt", *packages} <= set(_sent())
    assert all((ROOT / name).exists() for name in _sent())
    (extras,) = re.findall(r"\[\$runtime,([\w,]+)\]", (DOCKER / "install.sh").read_text())
    assert {"cpu", "gpu", *extras.split(",")} <= project["project"]["optional-dependencies"].keys()
    done = _run("sh", DOCKER / "install.sh", "tpu", tmp_path / "x")
    assert (done.returncode, done.stderr) == (2, "usage: install.sh cpu|gpu FOLDER\n")
    assert not (tmp_path / "x").exists()


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
