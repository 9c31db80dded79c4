"""An Elasticsearch server for tests: the distribution on Maven Central, which has no optional modules; one node."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import elasticsearch
import httpx
from elastic_transport import Transport
from elasticsearch import Elasticsearch

from indexer.cluster.transport import PlainTransport
from trials.servers import process
from trials.servers.process import ServerMissing, ServerProcess, free_port
from trials.servers.shared import once

VERSION = os.environ.get("TESTS_ELASTIC_VERSION", "9.5.0")
"""Version of the tests' server: ``TESTS_ELASTIC_VERSION=8.19.0 make test`` runs them on an older one."""
_TRANSPORT = PlainTransport if int(VERSION.partition(".")[0]) < elasticsearch.__version__[0] else Transport
_ARTIFACT = f"org.elasticsearch.distribution.integ-test-zip:elasticsearch:{VERSION}:zip"
_JAVA = 21
PASSWORD = "correct horse"  # noqa: S105 - of servers that live as long as the tests


class ElasticServer(ServerProcess):
    name = "Elasticsearch"
    started_within = 300.0
    user, group = ("nobody", "nogroup") if os.geteuid() == 0 else (None, None)

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.java = _java_home()
        self.port, self._transport = free_port(), free_port()
        self.settings = {"xpack.security.enabled": "false", **(settings or {})}
        shutil.copytree(once("elasticsearch-distribution", distribution), folder / "server")
        (folder / "snapshots").mkdir()
        (folder / "tmp").mkdir()
        folder.chmod(0o755)
        if self.user:
            subprocess.run(["chown", "-R", self.user, str(folder)], check=True)

    @property
    def url(self) -> str:
        scheme = "https" if self.settings.get("xpack.security.http.ssl.enabled") == "true" else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def secure(self, users: Mapping[str, str], roles: str) -> None:
        """Turn on TLS and security before the start, with a role for each user and the contents of ``roles.yml``."""
        config = self.folder / "server" / "config"
        key = config / "node.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
             "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", self.ca],
            check=True, capture_output=True,
        )  # fmt: skip
        key.chmod(0o644)
        (config / "roles.yml").write_text(roles)
        self.run("elasticsearch-users", "useradd", "somebody", "-p", PASSWORD)
        _, _, hashed = (config / "users").read_text().strip().partition(":")
        (config / "users").write_text("".join(f"{user}:{hashed}\n" for user in users))
        (config / "users_roles").write_text("".join(f"{role}:{user}\n" for user, role in users.items()))
        self.settings |= {
            "xpack.security.enabled": "true",
            "xpack.security.http.ssl.enabled": "true",
            "xpack.security.http.ssl.key": "node.key",
            "xpack.security.http.ssl.certificate": self.ca.name,
        }

    @property
    def ca(self) -> Path:
        return self.folder / "server" / "config" / "node.crt"

    def run(self, program: str, *arguments: str, stdin: str = "") -> None:
        subprocess.run(
            [self.folder / "server" / "bin" / program, *arguments], check=True, input=stdin.encode(),
            capture_output=True, env=self.environment(), **self.as_user,
        )  # fmt: skip

    def command(self) -> Sequence[str | Path]:
        settings = {
            "discovery.type": "single-node",
            "http.port": str(self.port),
            "transport.port": str(self._transport),
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "path.repo": str(self.folder / "snapshots"),
            **self.settings,
        }
        arguments = [part for name, value in settings.items() for part in ("-E", f"{name}={value}")]
        return [self.folder / "server" / "bin" / "elasticsearch", *arguments]

    def environment(self) -> Mapping[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "ES_JAVA_HOME": str(self.java),
            "ES_JAVA_OPTS": os.environ.get("ES_JAVA_OPTS", "-Xms1g -Xmx1g"),
            "ES_TMPDIR": str(self.folder / "tmp"),
            "CLI_JAVA_OPTS": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={self.folder / 'tmp'}",
        }

    def answers(self) -> bool:
        """Whether it is up; a refusal counts as an answer."""
        try:
            return httpx.get(f"{self.url}/_cluster/health", timeout=5, verify=False).status_code != 503  # noqa: S501
        except httpx.TransportError:
            return False


def client_of(url: str, **options: Any) -> Elasticsearch:
    """A client with a long timeout, because other tests keep the server busy; an older server also gets plain JSON."""
    return Elasticsearch(url, request_timeout=120, transport_class=_TRANSPORT, **options)


BLOCK = "index.blocks.read_only_allow_delete"
"""Setting of an index that the server sets when a disk is past its flood-stage watermark."""
PRESSURE = 6_000_000  # bytes of writes that the killable server accepts at once
REQUEST = 4_000_000  # bytes of the largest request that it accepts
LITTLE_ROOM = {"indexing_pressure.memory.limit": f"{PRESSURE}b", "http.max_content_length": f"{REQUEST}b"}


def killable_server(folder: Path) -> ElasticServer:
    """A server that tests may kill, without security and with little room for writes, ready to start."""
    return ElasticServer(folder, LITTLE_ROOM)


def running(
    settings: Mapping[str, str] | None = None, prepare: Callable[[ElasticServer], object] = lambda _: None
) -> AbstractContextManager[ElasticServer]:
    """A server in a temporary folder, prepared before it starts; afterwards both are gone."""

    def make(folder: Path) -> ElasticServer:
        server = ElasticServer(folder, settings)
        prepare(server)
        return server

    return process.running(make)


def distribution(folder: Path) -> Path:
    """Fetch and unpack the distribution into an empty folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerMissing("no Elasticsearch for tests: Maven brings it; apt-get install maven")
    fetch = ["dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"]
    copied = subprocess.run([maven, "-q", "-B", *fetch], capture_output=True, text=True, check=False)
    if copied.returncode:
        raise ServerMissing(f"no Elasticsearch for tests: Maven could not fetch {_ARTIFACT}: {copied.stdout[-500:]}")
    shutil.unpack_archive(folder / f"elasticsearch-{VERSION}.zip", folder)
    unpacked = folder / f"elasticsearch-{VERSION}"
    for program in (unpacked / "bin").iterdir():
        program.chmod(0o755)
    return unpacked


def _java_home() -> Path:
    homes = [Path(os.environ[name]) for name in ("ES_JAVA_HOME", "JAVA_HOME") if os.environ.get(name)]
    for home in (*homes, *sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)):
        release = (home / "release").read_text() if (home / "release").is_file() else ""
        version = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
        if version and int(version[1]) >= _JAVA and "jdk.incubator.vector" in release:
            return home
    raise ServerMissing(
        f"no Java {_JAVA} or later for the tests' Elasticsearch: apt-get install openjdk-{_JAVA}-jre-headless, "
        "or name a JDK in ES_JAVA_HOME"
    )
