"""What a test run shares is made once, lent to one test at a time, and gone when the run is, however it ended."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import until
from trials import ROOT
from trials.servers.process import ServerProcess, only_zombies
from trials.servers.shared import lent, once

_RUN = """
import time
from trials.servers.shared import shared_folder, started
from tests.trials.test_shared import Sleeper
print(shared_folder(), started("sleeper", Sleeper).pid, flush=True)
time.sleep(600)
"""


class Sleeper(ServerProcess):
    """The quickest server there is."""

    name = "sleeper"

    def command(self) -> list[str]:
        return ["sleep", "600"]

    def answers(self) -> bool:
        return bool(self.pid) and Path(f"/proc/{self.pid}").exists()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shared folder of a run of its own."""
    monkeypatch.setenv("TESTS_SHARED_FOLDER", str(tmp_path))
    return tmp_path


def test_a_thing_is_made_once_whoever_asks(folder: Path) -> None:
    made: list[Path] = []

    def make(place: Path) -> str:
        made.append(place)
        return place.name

    with ThreadPoolExecutor() as pool:
        names = set(pool.map(lambda _: once("thing", make), range(8)))
    assert names == {made[0].name}
    assert len(made) == 1


@pytest.mark.parts
def test_a_lent_server_is_one_test_s_and_the_next_finds_it_running(folder: Path) -> None:
    waiting = threading.Event()

    def borrow() -> bool:
        waiting.set()
        with lent("sleeper", Sleeper) as server:
            return server.answers() and returned.is_set()

    returned = threading.Event()
    with ThreadPoolExecutor() as pool:
        with lent("sleeper", Sleeper) as server:
            other = pool.submit(borrow)
            assert waiting.wait(60)
            server.kill()
            assert not server.answers()
            assert not other.done()
            returned.set()
        assert other.result(60)
    server.kill()
    assert not server.answers()


@pytest.mark.parts
def test_a_run_that_is_killed_leaves_no_server_and_no_folder() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TESTS_SHARED_FOLDER"}
    with subprocess.Popen(
        [sys.executable, "-c", _RUN], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        place, pid = run.stdout.readline().split()
        assert Path(f"/proc/{pid}").exists()
        run.kill()
    until(lambda: not Path(f"/proc/{pid}").exists() and not Path(place).exists())


def test_a_process_is_not_gone_while_one_of_its_threads_runs() -> None:
    """As an Elasticsearch that was killed: its first thread is a zombie while others still hold its files."""
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        stat = Path(f"/proc/{process.pid}/stat")
        until(lambda: ") Z " in stat.read_text())
        assert not only_zombies(process.pid)
    finally:
        process.kill()
    until(lambda: only_zombies(process.pid))
    process.wait()
