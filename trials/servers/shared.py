"""Servers and other things that all processes of a test run share: the first process that needs a thing makes it.

The process that was started first (with ``pytest -n`` the process that hands out the tests) makes a folder; the others
find it by an environment variable. A helper, ``python -m trials.servers.shared FOLDER``, waits until that process ends,
however it ends; then it kills the servers and deletes the folder.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from trials import ROOT
from trials.servers.process import S, end

_VARIABLE = "TESTS_SHARED_FOLDER"
_PATIENCE = 900.0
"""Seconds to wait for what another process makes or has for itself."""
T = TypeVar("T")


def shared_folder() -> Path:
    """The folder of this test run."""
    if _VARIABLE not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="dragoman-tests-"))
        folder.chmod(0o755)  # servers run as users of their own
        os.environ[_VARIABLE] = str(folder)
        waiting = subprocess.Popen(
            [sys.executable, "-m", __name__, folder],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
        atexit.register(waiting.communicate)
    return Path(os.environ[_VARIABLE])


def _clean(folder: Path) -> None:
    while running := list(folder.glob("*/pid")):  # a process of the run may still be starting one
        for file in running:
            with suppress(TimeoutError):
                end(file.parent)
            file.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def once(name: str, make: Callable[[Path], T]) -> T:
    """A thing that is made once for a whole test run.

    Args:
        name: of the thing.
        make: makes it in an empty folder of its own; what it returns is pickled for the other processes.
    """
    root = shared_folder()
    file = root / f"{name}.made"
    with FileLock(root / f"{name}.lock", timeout=_PATIENCE):
        if not file.exists():
            folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
            folder.chmod(0o755)
            made = make(folder)
            file.write_bytes(pickle.dumps(made))
            return made
    found: T = pickle.loads(file.read_bytes())
    return found


def started(name: str, make: Callable[[Path], S]) -> S:
    """A server that is started once for a whole test run, and killed at its end.

    Raises:
        ServerMissing: it is not installed here.
    """

    def start(folder: Path) -> S:
        server = make(folder)
        server.start()
        return server

    return once(name, start)


@contextmanager
def lent(name: str, make: Callable[[Path], S]) -> Iterator[S]:
    """A server of the whole test run that a test has for itself and may kill; other processes wait.

    Raises:
        ServerMissing: it is not installed here.
    """
    with FileLock(shared_folder() / f"{name}.lent", timeout=_PATIENCE):
        server = started(name, make)
        server.revive()  # whoever had it before may have left it dead
        yield server


if __name__ == "__main__":
    sys.stdin.read()  # ends when the process ends that holds the other end
    _clean(Path(sys.argv[1]))
