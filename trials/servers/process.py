"""A server that is one process group, in its own folder: tests start, kill and pause it."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trials import patient
from trials.clock import Clock


class ServerMissing(Exception):
    """A server's program is not on this machine; the message names the program and the command that installs it."""


class ServerProcess:
    """A server with its data, its log and, while it runs, its process group (``pid``) in a folder.

    A pickled server can be used, killed, paused and started by another process.
    """

    name = ""
    user: str | None = None  # who runs it; None: this process's user
    group: str | None = None
    started_within = 120.0  # maximum seconds that it may take to start
    allowed = True  # whether the current test may start servers; a test of ``make check`` may not
    clock: Clock | None = None  # its time of day; None: this machine's

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def pid(self) -> int:
        """Number of the process group; 0 if the server does not run."""
        return pid_in(self.folder)

    @property
    def as_user(self) -> dict[str, Any]:
        return {"user": self.user, "group": self.group or self.user, "extra_groups": [] if self.user else None}

    def command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start the server, and return when it answers; the error of one that does not has the end of its log."""
        if not self.allowed:
            raise RuntimeError(f"a test of `make check` starts {self.name}: mark it `parts`, for `make test`")
        log = self.folder / "log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=self.folder,
                env={**self.environment(), **(self.clock.environment if self.clock else {})}, start_new_session=True,
                **self.as_user,
            )  # fmt: skip
        (self.folder / "pid").write_text(str(process.pid), encoding="ascii")
        threading.Thread(target=process.wait, daemon=True).start()  # reaps the process, whoever kills it
        begun = time.monotonic()
        while not self.answers():
            if process.poll() is not None or time.monotonic() > begun + patient(self.started_within):
                _end_group(process.pid)
                raise RuntimeError(f"{self.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        end(self.folder)

    def revive(self) -> None:
        if not self.answers():
            self.kill()
            self.start()

    def pause(self) -> None:
        """Stop the server's processes; its connections stay open."""
        os.killpg(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)


def pid_in(folder: Path) -> int:
    """Process group of the server that runs in a folder; 0 if none does."""
    file = folder / "pid"
    return int(file.read_text(encoding="ascii")) if file.exists() else 0


def end(folder: Path) -> None:
    if pid := pid_in(folder):
        _end_group(pid)
    (folder / "pid").unlink(missing_ok=True)


def _end_group(group: int) -> None:
    until = time.monotonic() + 60
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, signal.SIGKILL)
            if _only_zombies(group):
                return
            if time.monotonic() > until:
                raise TimeoutError(f"process group {group} does not end")
            time.sleep(0.02)


def _only_zombies(group: int) -> bool:
    """Whether all processes of a group are zombies: some containers do not reap orphans.

    A process whose first thread is a zombie may have other threads that still hold its files; it counts as alive.
    """
    zombies = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                zombies.append(fields[0] == "Z" and int(fields[17]) <= 1)  # state, number of threads
    return bool(zombies) and all(zombies)


S = TypeVar("S", bound=ServerProcess)


@contextlib.contextmanager
def running(make: Callable[[Path], S]) -> Iterator[S]:
    """Start the server that is made in an empty temporary folder; afterwards both are gone."""
    shared = os.environ.get("TESTS_SHARED_FOLDER")  # so that a killed test run leaves nothing
    with tempfile.TemporaryDirectory(prefix="dragoman-server-", dir=shared, ignore_cleanup_errors=True) as folder:
        server = make(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def program(name: str, package: str, *folders: Path) -> Path:
    """The file of a program: in one of some folders, or on the path; ``ServerMissing`` if there is none."""
    if file := shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ["PATH"]])):
        return Path(file)
    raise ServerMissing(f"no {name} for tests: apt-get install {package}")


def free_port() -> int:
    """A free port of loopback, outside the range that clients are given: it stays free while its server is away."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
