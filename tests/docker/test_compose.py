"""The Compose file, as far as it can be checked without a Docker engine."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docker.files import DOCKER, compose, instructions, readme_commands

SERVICES = compose()["services"]
ONE_SHOT = {"setup", "account", "dragoman", "dragoman-gpu", "publisher"}


def _set_in(env: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", env.read_text(), re.MULTILINE))


def test_it_fits_the_compose_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_its_variables_are_those_of_the_example_and_have_the_same_defaults() -> None:
    used = re.findall(r"\$\{(\w+):([-?])([^}]*)\}", (DOCKER / "compose.yml").read_text())
    example = _set_in(DOCKER / ".env.example")
    assert {name for name, _, _ in used} == set(example)
    assert {(name, example[name]) for name, kind, _ in used if kind == "?"} == {
        (name, "") for name in example if name.endswith("_PASSWORD")
    }
    assert all(example[name] == default for name, kind, default in used if kind == "-")


def test_the_command_in_the_readme_fills_in_passwords_that_differ(tmp_path: Path) -> None:
    shutil.copy(DOCKER / ".env.example", tmp_path)
    (command,) = readme_commands("(umask")
    subprocess.run(["sh", "-c", f"(umask{command}"], cwd=tmp_path, check=True)
    filled, example = _set_in(tmp_path / ".env"), _set_in(DOCKER / ".env.example")
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


def test_what_runs_for_long_has_a_health_check_and_starts_again() -> None:
    for name in SERVICES.keys() - ONE_SHOT:
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD", name
        assert SERVICES[name]["restart"] == "unless-stopped", name
    for name in ONE_SHOT:
        assert "restart" not in SERVICES[name], name


def test_every_service_has_a_bound_on_its_memory_unless_it_ends_by_itself() -> None:
    assert {name for name, service in SERVICES.items() if "mem_limit" not in service} == {"setup", "account"}


def test_only_the_setup_of_new_volumes_is_root() -> None:
    assert {name for name, service in SERVICES.items() if "user" in service} == {"setup"}
    assert SERVICES["setup"]["network_mode"] == "none"


def test_what_is_published_is_published_on_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_volumes_that_are_named_are_declared_and_used() -> None:
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert {mount for mount in mounts if mount.isalpha()} == set(compose()["volumes"])


def test_the_gpu_build_differs_in_the_runtime_and_has_a_gpu() -> None:
    cpu, gpu = SERVICES["dragoman"], SERVICES["dragoman-gpu"]
    assert {name for name in gpu if gpu[name] != cpu.get(name)} == {"profiles", "image", "build", "deploy"}
    assert (cpu["build"]["args"], gpu["build"]["args"]) == ({"RUNTIME": "cpu"}, {"RUNTIME": "gpu"})


def test_a_worker_on_a_gpu_is_a_worker_with_the_gpu_build_and_all_it_waits_for_starts_with_it() -> None:
    cpu, gpu, build = SERVICES["worker"], SERVICES["worker-gpu"], SERVICES["dragoman-gpu"]
    assert {name for name in gpu if gpu[name] != cpu.get(name)} == {"profiles", "image", "build", "deploy", "command"}
    assert all(gpu[name] == build[name] for name in ("profiles", "image", "build", "deploy"))
    assert gpu["command"] == [*cpu["command"], "--device", "cuda"]
    for name in gpu["depends_on"]:
        assert set(gpu["profiles"]) <= set(SERVICES[name].get("profiles", gpu["profiles"])), name


def test_compose_itself_reads_it(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker command with the compose plugin")
    filled = tmp_path / "env"
    filled.write_text(re.sub(r"(?m)(?<=_PASSWORD=)$", "secret", (DOCKER / ".env.example").read_text()))

    def config(env: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [docker, "compose", "-f", DOCKER / "compose.yml", "--profile", "*", "--env-file", env, "config"],
            capture_output=True,
            text=True,
            env={name: os.environ[name] for name in ("PATH", "HOME")},
            check=False,
        )

    assert "set it in .env" in config(DOCKER / ".env.example").stderr
    read = config(filled)
    assert read.returncode == 0, read.stderr
    assert yaml.safe_load(read.stdout)["services"].keys() == SERVICES.keys()
