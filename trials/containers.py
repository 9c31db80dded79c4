"""The services of ``docker/compose.yml`` in containers, on images made of Debian's packages instead of a hub's.

Podman runs them in a folder of its own. mmdebstrap makes the image of Python that the Dockerfile builds on, and
stand-ins for the servers' images (``trials/stand_ins``), which have the published images' names and read the same
variables: Elasticsearch from Maven Central, which can't keep accounts, and Debian's PostgreSQL and RabbitMQ.
"""

import contextlib
import os
import re
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from trials import ROOT
from trials.servers.elastic import distribution
from trials.servers.process import ServerMissing
from trials.servers.shared import once

_DOCKER, _STAND_INS = ROOT / "docker", ROOT / "trials" / "stand_ins"
_DEBIAN = "trixie"
_PYTHON = "python3", "python3-venv", "python3-pip", "python-is-python3", "ca-certificates"
_SERVERS = "openjdk-21-jre-headless", "curl", "unzip", "ca-certificates", "postgresql", "rabbitmq-server"
_PROGRAMS = {
    "/usr/bin/podman": "podman",
    "/usr/sbin/runc": "runc",
    "/usr/bin/mmdebstrap": "mmdebstrap",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/libexec/podman/catatonit": "catatonit",
}
"""Programs, and Debian's packages that have them."""
_CHANGES = """\
x-checked: &checked
  healthcheck: {start_interval: !reset null}
services:
  account:
    entrypoint: ["true"]
  elasticsearch:
    environment:
      DRAGOMAN_ELASTIC_PASSWORD: ${DRAGOMAN_ELASTIC_PASSWORD}
    ulimits: !reset null
    <<: *checked
  postgres: *checked
  rabbitmq: *checked
  serve: *checked
  worker: *checked
"""
"""Changes to the Compose file: Elasticsearch has the account, this machine may have a lower limit of open files, and
Podman 4 has no interval of health checks for the start.
"""


class Containers:
    def __init__(self, folder: Path) -> None:
        if os.geteuid() or not all(Path(program).exists() for program in _PROGRAMS):
            raise ServerMissing(f"no containers for tests: as root, apt-get install {' '.join(_PROGRAMS.values())}")
        self.folder, self.documents = folder, folder / "documents"
        self.documents.mkdir()
        example = (_DOCKER / ".env.example").read_text(encoding="utf-8")
        names = re.findall(r"^(\w+_PASSWORD)=$", example, re.MULTILINE)
        self.passwords = {name: secrets.token_hex(16) for name in names}
        filled = re.sub(r"(?m)^(\w+_PASSWORD)=$", lambda name: f"{name[1]}={self.passwords[name[1]]}", example)
        self._write("env", re.sub(r"(?m)^DOCUMENTS=.*$", f"DOCUMENTS={self.documents}", filled))
        self._write("changes.yml", _CHANGES)
        open_files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65535)
        self._write(
            "containers.conf",
            f'[containers]\ndefault_ulimits = ["nofile={open_files}:{open_files}", "nproc=8192:8192"]\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n[network]\nnetwork_backend = "netavark"\n',
        )
        options = f"--root {folder}/storage --runroot {folder}/run --network-config-dir {folder}/networks"
        self._write("podman", f'#!/bin/sh\nexec podman {options} "$@"\n')
        (folder / "podman").chmod(0o755)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def podman(self, *arguments: str | Path) -> str:
        return self._run(self.folder / "podman", *arguments)

    def compose(self, *arguments: str) -> str:
        """Run ``docker compose`` by Podman, with all profiles; returns its output."""
        files = "-f", _DOCKER / "compose.yml", "-f", self.folder / "changes.yml", "--env-file", self.folder / "env"
        profiles = [part for profile in ("tools", "serve", "workers") for part in ("--profile", profile)]
        podman = "--podman-path", self.folder / "podman"
        return self._run(sys.executable, "-m", "podman_compose", *podman, *files, *profiles, *arguments)

    def _run(self, *command: str | Path) -> str:
        own = {"CONTAINERS_CONF": str(self.folder / "containers.conf"), "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own}, check=False)
        if done.returncode:
            raise RuntimeError(f"{done.args} failed: {done.stdout[-2000:]} {done.stderr[-4000:]}")
        return done.stdout

    def dragoman(self, *arguments: str, service: str = "dragoman") -> str:
        """Run a command as ``docker compose run --rm`` does; returns its output."""
        return self.compose("run", "-T", "--rm", "--no-deps", service, *arguments)

    def make_images(self) -> None:
        elasticsearch = once("elasticsearch-distribution", distribution)
        (based_on,) = set(re.findall(r"^FROM (python:\S+)", (_DOCKER / "Dockerfile").read_text("utf-8"), re.MULTILINE))
        self._make_base(f"docker.io/library/{based_on}", _PYTHON)
        self._make_base(f"localhost/servers:{_DEBIAN}", _SERVERS)
        compose = (_DOCKER / "compose.yml").read_text("utf-8")
        for server in ("elasticsearch", "postgres", "rabbitmq"):
            (image,) = set(re.findall(rf"image: ({server}:\S+)", compose))
            context = self.folder / server
            shutil.copytree(_STAND_INS / server, context)
            if server == "elasticsearch":
                shutil.copytree(elasticsearch, context / "distribution")
            self.build(f"docker.io/library/{image}", context, context)

    def make_systemd_image(self) -> None:
        """Make ``localhost/systemd`` of Dragoman's image: systemd, Redis, the unit's file, no user ``dragoman``."""
        self.build("localhost/systemd", _STAND_INS / "systemd", _DOCKER)

    def build(self, image: str, recipe: Path, context: Path) -> None:
        self.podman("build", "-q", "--pull=never", "-f", recipe / "Dockerfile", "-t", image, context)

    def _make_base(self, image: str, packages: tuple[str, ...]) -> None:
        archive = self.folder / "base.tar"
        hooks, changes = ["rm -f $1/usr/lib/python3*/EXTERNALLY-MANAGED"], []
        if certificates := os.environ.get("SSL_CERT_FILE"):  # of a machine behind a proxy that signs anew
            hooks.append(f"upload {certificates} /etc/ssl/certs/ca-certificates.crt")
            changes = ["--change", "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]
        included = ("--variant=minbase", f"--include={','.join(packages)}")
        self._run("mmdebstrap", *included, *(f"--customize-hook={hook}" for hook in hooks), _DEBIAN, archive)
        self.podman("import", "-q", *changes, archive, image)
        archive.unlink()

    def wait_until_healthy(self, service: str, seconds: float = 180.0) -> None:
        container = f"dragoman_{service}_1"
        until = time.monotonic() + seconds
        while True:
            try:
                self.podman("healthcheck", "run", container)
            except RuntimeError as unhealthy:
                if time.monotonic() > until:
                    log = self.podman("logs", "--tail", "50", container)
                    raise RuntimeError(f"{service}: {unhealthy} {log}") from None
            else:
                return
            time.sleep(1)


@contextlib.contextmanager
def containers() -> Iterator[Containers]:
    """Images and an empty project in a temporary folder; afterwards all of it is gone."""
    with tempfile.TemporaryDirectory(prefix="dragoman-containers-") as scratch, contextlib.ExitStack() as cleanup:
        made = Containers(Path(scratch))
        cleanup.callback(made.podman, "rm", "--all", "--force")
        cleanup.callback(made.compose, "down", "-v", "-t", "5")
        made.make_images()
        yield made
