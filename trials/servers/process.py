"""A server that is one process group, in a folder of its own: started, killed, paused as a test likes."""

from __future__ import annotations

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


class ServerMissing(Exception):
    """A server's program is not on this machine; the message says which, and the command that brings it."""


class ServerProcess:
    """A server; a subclass says which.

    A pickled server can be asked, killed, paused and started by another process.

    Attributes:
        folder: its data, its log, and while it runs its number in ``pid``.
        user, group: who runs it; this process's user where None.
        started_within: seconds it may take to start.
        allowed: whether the test that runs may start servers: a test of ``make check`` may not.
    """

    name = ""
    user: str | None = None
    group: str | None = None
    started_within = 120.0
    allowed = True

    def __init__(self, folder: Path) -> None:
        """Be ready to start, with data in an empty folder."""
        self.folder = folder

    @property
    def pid(self) -> int:
        """Of the process group; 0 where it does not run."""
        return pid_in(self.folder)

    def command(self) -> Sequence[str | Path]:
        """What to run."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """What it runs with."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}

    def answers(self) -> bool:
        """Whether it can be used."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and return when it answers.

        Raises:
            RuntimeError: it died, or did not answer in time; with the end of its log. Or the test may not start it.
        """
        if not self.allowed:
            raise RuntimeError(f"a test of `make check` starts {self.name}: mark it `parts`, for `make test`")
        log = self.folder / "log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(self.environment()),
                cwd=self.folder,
                start_new_session=True,
                user=self.user,
                group=self.group or self.user,
                extra_groups=[] if self.user else None,
            )
        (self.folder / "pid").write_text(str(process.pid), encoding="ascii")
        threading.Thread(target=process.wait, daemon=True).start()  # reaps it, whoever kills it
        until = time.monotonic() + self.started_within
        while not self.answers():
            if process.poll() is not None or time.monotonic() > until:
                _end_group(process.pid)
                raise RuntimeError(f"{self.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power failure does, and return when it is gone."""
        end(self.folder)

    def revive(self) -> None:
        """Start it again unless it answers."""
        if not self.answers():
            self.kill()
            self.start()

    def pause(self) -> None:
        """Stop it answering, its connections open."""
        os.killpg(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        os.killpg(self.pid, signal.SIGCONT)


def pid_in(folder: Path) -> int:
    """Number of the server that runs in a folder; 0 where none does."""
    try:
        return int((folder / "pid").read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def end(folder: Path) -> None:
    """Kill the server that runs in a folder, if one does, and return when it is gone.

    Raises:
        TimeoutError: it is not gone after a minute.
    """
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
    """Whether a process group has zombies alone: some containers reap no orphans.

    A process whose first thread is a zombie may have other threads that still hold its files; then it is no zombie.
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
    """A server in a temporary folder; both are gone afterwards.

    Args:
        make: makes the server in an empty folder.

    Raises:
        ServerMissing: it is not installed here.
    """
    shared = os.environ.get("TESTS_SHARED_FOLDER")  # so that a run that is killed leaves nothing
    with tempfile.TemporaryDirectory(prefix="dragoman-server-", dir=shared, ignore_cleanup_errors=True) as folder:
        server = make(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


def program(name: str, package: str, *places: Path) -> Path:
    """Where a program is: on the path, or in one of some folders.

    Raises:
        ServerMissing: it is not; the message has the command that brings it.
    """
    for place in places:
        if (place / name).is_file():
            return place / name
    if found := shutil.which(name):
        return Path(found)
    raise ServerMissing(f"no {name} for tests: apt-get install {package}")


def free_port() -> int:
    """A port of loopback that nobody listens at, and that no client is given while its server is away."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
