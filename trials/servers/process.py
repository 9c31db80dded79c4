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
from typing import TypeVar

from trials.clock import Clock


class ServerMissing(Exception):
    """A server's program is not on this machine; the message names the program and the command that installs it."""


class ServerProcess:
    """Base class of servers. A pickled server can be used, killed, paused and started by another process."""

    name = ""
    user: str | None = None
    group: str | None = None
    started_within = 120.0
    allowed = True
    clock: Clock | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def pid(self) -> int:
        """Number of the process group; 0 if the server does not run."""
        return pid_in(self.folder)

    def command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        if not self.allowed:
            raise RuntimeError(f"a test of `make check` starts {self.name}: mark it `parts`, for `make test`")
        log = self.folder / "log"
        environment = {**self.environment(), **(self.clock.environment if self.clock else {})}
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
                user=self.user,
                group=self.group or self.user,
                extra_groups=[] if self.user else None,
            )
        (self.folder / "pid").write_text(str(process.pid), encoding="ascii")
        threading.Thread(target=process.wait, daemon=True).start()  # reaps the process, whoever kills it
        until = time.monotonic() + self.started_within
        while not self.answers():
            if process.poll() is not None or time.monotonic() > until:
                _end_group(process.pid)
                raise RuntimeError(f"{self.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End the server as a power failure does, and return when it is gone."""
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
    try:
        return int((folder / "pid").read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def end(folder: Path) -> None:
    """Kill the server that runs in a folder, if one does, and return when it is gone."""
    if pid := pid_in(folder):
        _end_group(pid)
    (folder / "pid").unlink(missing_ok=True)


def _end_group(group: int) -> None:
    killed = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, signal.SIGKILL)
            if only_zombies(group):
                return
            if time.monotonic() - killed > 60:
                raise TimeoutError(f"process group {group} does not end")
            time.sleep(0.02)


def only_zombies(group: int) -> bool:
    """Whether all processes of a group are zombies: some containers do not reap orphans."""
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
    """Start a server in a temporary folder; afterwards both are gone."""
    shared = os.environ.get("TESTS_SHARED_FOLDER")  # so that a killed test run leaves nothing
    with tempfile.TemporaryDirectory(prefix="dragoman-server-", dir=shared, ignore_cleanup_errors=True) as folder:
        server = make(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def program(name: str, package: str, *folders: Path) -> Path:
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    if file := shutil.which(name):
        return Path(file)
    raise ServerMissing(f"no {name} for tests: apt-get install {package}")


def free_port() -> int:
    """A free port of loopback, outside the range that clients are given: it stays free while its server is away."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
