"""The Compose file and the unit of systemd, as far as they can be checked without Docker and systemd."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker.files import DOCKER, compose, instructions, readme_commands
from trials import ROOT

SERVICES = compose()["services"]
ONE_SHOT = {"setup", "account", "dragoman", "dragoman-gpu", "publisher"}


def _set_in(env: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", env.read_text(), re.MULTILINE))


def _run(*command: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def test_it_fits_the_compose_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    done = _run(checker, "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yml")
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


def test_every_image_has_its_version() -> None:
    images = [service["image"] for service in SERVICES.values()]
    images += [arguments.split()[0] for name, arguments in instructions() if name == "FROM"]
    foreign = {image for image in images if not image.startswith("dragoman:")}
    assert foreign
    assert all(re.search(r":\d+\.\d+", image) for image in foreign)
    assert not any("latest" in image for image in images)


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


def test_volumes_that_are_named_are_declared_and_used() -> None:
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {mount for mount in mounts if mount.isalpha()} == set(compose()["volumes"])


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


def test_compose_itself_reads_it(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None or _run(docker, "compose", "version").returncode:
        pytest.skip("no docker command with the compose plugin")
    filled = tmp_path / "env"
    filled.write_text(re.sub(r"(?m)(?<=_PASSWORD=)$", "secret", (DOCKER / ".env.example").read_text()))

    def config(env: Path) -> subprocess.CompletedProcess[str]:
        options = "-f", DOCKER / "compose.yml", "--profile", "*", "--env-file", env
        return _run(docker, "compose", *options, "config", env={name: os.environ[name] for name in ("PATH", "HOME")})

    assert "set it in .env" in config(DOCKER / ".env.example").stderr
    read = config(filled)
    assert read.returncode == 0, read.stderr
    assert yaml.safe_load(read.stdout)["services"].keys() == SERVICES.keys()


UNIT = DOCKER / "dragoman@.service"


def _setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def test_user_and_folders_of_the_unit_are_those_of_the_image() -> None:
    user = next(arguments for name, arguments in instructions() if name == "RUN" and "useradd" in arguments)
    assert f" {_setting('User')} " in user
    variables, in_image = (
        dict(re.findall(r"(DRAGOMAN_\w+)=(\S+)", file.read_text())) for file in (UNIT, DOCKER / "Dockerfile")
    )
    assert variables == in_image
    assert variables["DRAGOMAN_HOME"] == f"/var/lib/{_setting('StateDirectory')}"
    assert variables["DRAGOMAN_CACHE"] == f"/var/cache/{_setting('CacheDirectory')}"


def test_the_guide_installs_what_the_unit_starts() -> None:
    guide = (ROOT / "docs/guides/systemd.md").read_text()
    (folder,) = re.findall(r"^sh docker/install.sh cpu (\S+)", guide, re.MULTILINE)
    assert _setting("ExecStart") == f"{folder}/bin/dragoman %i"
    assert f"useradd --system --home-dir /var/lib/dragoman --shell /usr/sbin/nologin {_setting('User')}\n" in guide
    assert _setting("EnvironmentFile") in guide
    variables = re.findall(r"^[A-Z_]+=.*$", guide, re.MULTILINE)
    assert len(variables) > 5
    assert not any(" " in variable for variable in variables)  # systemd would take what follows for the value


def test_systemd_finds_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    checker = shutil.which("systemd-analyze")
    if checker is None:
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / "dragoman@serve.service"
    unit.write_text(UNIT.read_text().replace("/opt/dragoman/bin/dragoman", "/bin/true"))
    done = _run(checker, "verify", "--man=no", unit)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "dragoman@" in line]) == (0, [])
