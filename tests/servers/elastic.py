"""An Elasticsearch server of the tests' own: the distribution that Maven Central carries, one node, loopback only.

It has no optional modules: no ``GET /``, no reindex, no scripts, no ingest, no language analysers. What runs here needs
none of them.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

VERSION = "9.5.0"
_ARTIFACT = f"org.elasticsearch.distribution.integ-test-zip:elasticsearch:{VERSION}:zip"
_JAVA = 21
_STARTED_WITHIN = 300.0
_USER, _GROUP = ("nobody", "nogroup") if os.geteuid() == 0 else (None, None)
_GROUPS: list[str] | None = [] if _USER else None
"""The server refuses to run as root."""


class ServerMissing(Exception):
    """What a server needs is not on this machine; the message says what, and the command that brings it."""


class ElasticServer:
    """One node, in a folder of its own.

    Attributes:
        folder: the distribution, its data and its logs.
        port: of HTTP, on loopback.
        settings: of ``elasticsearch.yml``.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """Unpack the distribution into an empty folder.

        Raises:
            ServerMissing: there is no distribution or no Java to run it.
        """
        self.folder = folder
        self.java = _java_home()
        self.port, self._transport = free_port(), free_port()
        self.settings = {"xpack.security.enabled": "false", **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        shutil.copytree(_distribution(), folder / "server")
        (folder / "snapshots").mkdir()
        folder.chmod(0o755)
        if _USER:
            subprocess.run(["chown", "-R", _USER, str(folder)], check=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        scheme = "https" if self.settings.get("xpack.security.http.ssl.enabled") == "true" else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def secure(self, users: Mapping[str, str], roles: str) -> Path:
        """Before the start: speak TLS, and know users, ``name:password`` → role; returns the CA's certificate.

        Args:
            users: role by user and password.
            roles: what stands in ``roles.yml``.
        """
        config = self.folder / "server" / "config"
        certificate, key = config / "node.crt", config / "node.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        key.chmod(0o644)
        (config / "roles.yml").write_text(roles)
        for user, role in users.items():
            name, _, password = user.partition(":")
            self.run("elasticsearch-users", "useradd", name, "-p", password, "-r", role)
        self.settings |= {
            "xpack.security.enabled": "true",
            "xpack.security.http.ssl.enabled": "true",
            "xpack.security.http.ssl.key": "node.key",
            "xpack.security.http.ssl.certificate": "node.crt",
        }
        return certificate

    def run(self, program: str, *arguments: str, stdin: str = "") -> None:
        """Run one of the distribution's programs, as the server's user."""
        subprocess.run(
            [self.folder / "server" / "bin" / program, *arguments],
            check=True,
            input=stdin.encode(),
            capture_output=True,
            env=self._environment(),
            user=_USER,
            group=_GROUP,
            extra_groups=_GROUPS,
        )

    def start(self) -> None:
        """Start it, and return when it answers.

        Raises:
            RuntimeError: it died, or did not answer in time; with the end of its log.
        """
        settings = {
            "discovery.type": "single-node",
            "http.port": str(self.port),
            "transport.port": str(self._transport),
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "path.repo": str(self.folder / "snapshots"),
            **self.settings,
        }
        arguments = [part for name, value in settings.items() for part in ("-E", f"{name}={value}")]
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [self.folder / "server" / "bin" / "elasticsearch", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.folder / "server",
                start_new_session=True,
                user=_USER,
                group=_GROUP,
                extra_groups=_GROUPS,
            )
        until = time.monotonic() + _STARTED_WITHIN
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Elasticsearch did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "ES_JAVA_HOME": str(self.java),
            "ES_JAVA_OPTS": os.environ.get("ES_JAVA_OPTS", "-Xms1g -Xmx1g"),
            "CLI_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }

    def _answers(self) -> bool:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"{self.url}/_cluster/health", timeout=5, context=trusting):
                return True
        except urllib.error.HTTPError as error:
            return error.code != 503
        except OSError:
            return False

    def kill(self) -> None:
        """End it as a power failure does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        self._process.wait(60)
        self._process = None

    def pause(self) -> None:
        """Stop it answering, its connections open."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)


@contextlib.contextmanager
def running(
    settings: Mapping[str, str] | None = None, prepare: Callable[[ElasticServer], object] = lambda _: None
) -> Iterator[ElasticServer]:
    """A server in a temporary folder; both are gone afterwards.

    Args:
        settings: of ``elasticsearch.yml``.
        prepare: what to do with it before it starts.

    Raises:
        ServerMissing: it can't be had here.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-elastic-", ignore_cleanup_errors=True) as folder:
        server = ElasticServer(Path(folder), settings)
        try:
            prepare(server)
            server.start()
            yield server
        finally:
            server.kill()


@functools.cache
def _distribution() -> Path:
    """The distribution, unpacked once for all servers of a process."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerMissing("no Elasticsearch for tests: Maven brings it; apt-get install maven")
    folder = Path(tempfile.mkdtemp(prefix="dragoman-elastic-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copied = subprocess.run(
        [maven, "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if copied.returncode:
        raise ServerMissing(f"no Elasticsearch for tests: Maven could not fetch {_ARTIFACT}: {copied.stdout[-500:]}")
    shutil.unpack_archive(folder / f"elasticsearch-{VERSION}.zip", folder)
    unpacked = folder / f"elasticsearch-{VERSION}"
    for program in (unpacked / "bin").iterdir():
        program.chmod(0o755)
    return unpacked


def _java_home() -> Path:
    named = [Path(os.environ[name]) for name in ("ES_JAVA_HOME", "JAVA_HOME") if os.environ.get(name)]
    for home in (*named, *sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)):
        if _release(home) >= _JAVA and "jdk.incubator.vector" in (home / "release").read_text():
            return home
    raise ServerMissing(
        f"no Java {_JAVA} or later for the tests' Elasticsearch: apt-get install openjdk-{_JAVA}-jre-headless, "
        "or name a JDK in ES_JAVA_HOME"
    )


def _release(home: Path) -> int:
    """Major version of a JDK; 0 where there is none."""
    try:
        lines = dict(line.split("=", 1) for line in (home / "release").read_text().splitlines() if "=" in line)
    except OSError:
        return 0
    return int(lines.get("JAVA_VERSION", '"0"').strip('"').split(".")[0])


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
