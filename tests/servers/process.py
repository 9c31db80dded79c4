"""A server that is one process group, in a folder of its own: started, killed, paused as a test likes."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""Servers that this process started, by their number."""


@atexit.register
def _leave() -> None:
    """Servers that outlive this process are not its children any more: ``Popen`` would warn of them."""
    for process in _CHILDREN.values():
        process.returncode = 0


class ServerMissing(Exception):
    """A server's program is not on this machine; the message says which, and the command that brings it."""


class ServerProcess:
    """A server; a subclass says which.

    A pickled server can be asked, killed, paused and started by another process.

    Attributes:
        folder: its data and its log.
        user, group: who runs it; this process's user where None.
        started_within: seconds it may take to start.
        allowed: whether the test that runs may start servers: a test of ``make check`` may not.
        pid: of the process group; 0 where it does not run.
    """

    name = ""
    user: str | None = None
    group: str | None = None
    started_within = 120.0
    allowed = True

    def __init__(self, folder: Path) -> None:
        """Be ready to start, with data in an empty folder."""
        self.folder = folder
        self.pid = 0

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
        self.pid = process.pid
        _CHILDREN[self.pid] = process
        until = time.monotonic() + self.started_within
        while not self.answers():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power failure does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, how)
            if process := _CHILDREN.pop(self.pid, None):
                process.wait(60)
        self.pid = 0

    def pause(self) -> None:
        """Stop it answering, its connections open."""
        os.killpg(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        os.killpg(self.pid, signal.SIGCONT)


S = TypeVar("S", bound=ServerProcess)


@contextlib.contextmanager
def running(make: Callable[[Path], S]) -> Iterator[S]:
    """A server in a temporary folder; both are gone afterwards.

    Args:
        make: makes the server in an empty folder.

    Raises:
        ServerMissing: it is not installed here.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-server-", ignore_cleanup_errors=True) as folder:
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
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
