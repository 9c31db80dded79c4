"""Resources that all processes of a test run share, servers among them: the first process that needs one makes it.

The first process of the run (with ``pytest -n`` the one that distributes the tests) makes a folder; the other processes
find the folder by an environment variable. A helper process, ``python -m trials.servers.shared FOLDER``, waits until
the first process ends, however it ends; then it kills the servers and deletes the folder.
"""

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
_PATIENCE = 900.0  # seconds to wait for a resource that another process makes or has borrowed
T = TypeVar("T")


def shared_folder() -> Path:
    if _VARIABLE not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="dragoman-tests-"))
        folder.chmod(0o755)  # servers run as other users
        os.environ[_VARIABLE] = str(folder)
        helper = subprocess.Popen(
            [sys.executable, "-m", __name__, folder], stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True
        )
        atexit.register(helper.communicate)
    return Path(os.environ[_VARIABLE])


def _clean(folder: Path) -> None:
    while files := list(folder.glob("*/pid")):  # a process of the run may still be starting a server
        for file in files:
            with suppress(TimeoutError):
                end(file.parent)
            file.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def once(name: str, make: Callable[[Path], T]) -> T:
    root = shared_folder()
    file = root / f"{name}.made"
    with FileLock(root / f"{name}.lock", timeout=_PATIENCE):
        if not file.exists():
            folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
            folder.chmod(0o755)
            resource = make(folder)
            file.write_bytes(pickle.dumps(resource))
            return resource
    pickled: T = pickle.loads(file.read_bytes())
    return pickled


def started(name: str, make: Callable[[Path], S]) -> S:
    def start(folder: Path) -> S:
        server = make(folder)
        server.start()
        return server

    return once(name, start)


@contextmanager
def lent(name: str, make: Callable[[Path], S]) -> Iterator[S]:
    """Borrow a server of the whole test run, which the test may kill; other processes wait."""
    with FileLock(shared_folder() / f"{name}.lent", timeout=_PATIENCE):
        server = started(name, make)
        server.revive()  # the test before may have left the server dead
        yield server


if __name__ == "__main__":
    sys.stdin.read()  # returns when the first process ends
    _clean(Path(sys.argv[1]))
