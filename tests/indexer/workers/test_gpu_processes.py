"""A process for each card: a failure starts it again, a signal ends all."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

from indexer.workers.gpu_processes import PERMANENT, run_for_each_card


def _end_with(status: int) -> int:
    return status


def _fail_once(file: Path) -> int:
    """Fail in the first process, end well in the second."""
    if file.exists():
        return 0
    file.touch()
    return 3


def _until_sigterm(file: Path) -> int:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    file.touch()
    while not ended.wait(0.1):
        pass
    return 0


def _loading(file: Path) -> int:
    """Work that has no handler of signals yet."""
    file.touch()
    time.sleep(600)
    return 0


def _killed(file: Path) -> int:
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_a_process_that_fails_or_is_killed_is_started_again(tmp_path: Path) -> None:
    work = {"cuda:0": partial(_fail_once, tmp_path / "failed"), "cuda:1": partial(_killed, tmp_path / "killed")}
    assert run_for_each_card(work, pause=0.1) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"failed", "killed"}


def test_a_signal_ends_all_and_what_waits_to_be_started_again(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second", tmp_path / "loading"]
    work = {f"cuda:{number}": partial(_until_sigterm, file) for number, file in enumerate(files)}
    work["cuda:2"] = partial(_loading, files[2])

    def end_when_begun() -> None:
        while not all(file.exists() for file in files):
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    before, thread = signal.getsignal(signal.SIGTERM), threading.Thread(target=end_when_begun)
    thread.start()
    start = time.monotonic()
    assert run_for_each_card({**work, "cuda:3": partial(_end_with, PERMANENT)}, pause=600.0) == 1
    thread.join()
    assert time.monotonic() - start < 60
    assert signal.getsignal(signal.SIGTERM) is before
