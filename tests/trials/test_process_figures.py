"""What a process uses is read as it is, and growth is found."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

from trials.process_figures import BOUNDS, CONNECTIONS, DESCRIPTORS, LOG, THREADS, Watched, sample


def test_descriptors_threads_connections_and_logs_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.db-wal").write_bytes(bytes(3 << 20))
    ended = threading.Event()
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        before = sample(os.getpid(), url, [tmp_path / "a.db", tmp_path / "b.db"])
        for _ in range(3):
            stack.enter_context(socket.create_connection(listening.getsockname()))
        thread = threading.Thread(target=ended.wait)
        thread.start()
        after = sample(os.getpid(), url, [tmp_path / "a.db"])
        ended.set()
        thread.join()
    more = {name: after[name] - before[name] for name in after}
    assert (more[CONNECTIONS], more[DESCRIPTORS], more[THREADS]) == (3, 3, 1)
    assert (before[LOG], after[LOG]) == (3, 3)


def test_what_grows_from_the_second_quarter_to_the_last_falls() -> None:
    flat = Watched([dict.fromkeys(BOUNDS, 9.0 if number < 25 else 50.0) for number in range(100)])
    assert not any(flat.grown())
    for name in BOUNDS:
        growing = Watched([{**dict.fromkeys(BOUNDS, 9.0), name: number * BOUNDS[name] / 20} for number in range(100)])
        (fallen,) = filter(None, growing.grown())
        assert fallen.startswith(f"{name}: ")
