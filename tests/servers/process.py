"""A server that is one process group, in a folder of its own: started, killed, paused as a test likes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.servers.elastic import ServerMissing

_STARTED_WITHIN = 120.0


class ServerProcess:
    """A server; what it is, a subclass says.

    Attributes:
        folder: its data and its log.
        user: who runs it; this process's user where None.
    """

    name = ""
    user: str | None = None

    def __init__(self, folder: Path) -> None:
        """Be ready to start, with data in an empty folder."""
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

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
            RuntimeError: it died, or did not answer in time; with the end of its log.
        """
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(self.environment()),
                cwd=self.folder,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
            )
        until = time.monotonic() + _STARTED_WITHIN
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power failure does."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        self._process = None


S = TypeVar("S", bound=ServerProcess)


@contextlib.contextmanager
def running(kind: type[S]) -> Iterator[S]:
    """A server in a temporary folder; both are gone afterwards.

    Raises:
        ServerMissing: it is not installed here.
    """
    with tempfile.TemporaryDirectory(prefix=f"dragoman-{kind.__name__.lower()}-", ignore_cleanup_errors=True) as folder:
        server = kind(Path(folder))
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
