"""What a process uses is read as it is, and growth is found."""

import socket
import subprocess
import sys
from pathlib import Path

from trials.process_figures import BOUNDS, CONNECTIONS, DESCRIPTORS, LOG, THREADS, Watched, sample

_GROWING = """
import socket, sys, threading
print("begun", flush=True)
input()
connections = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(3)]
threading.Thread(target=input).start()
print("grown", flush=True)
"""


def test_descriptors_threads_connections_and_logs_are_counted(tmp_path: Path) -> None:
    """In a process of its own, as services of other tests run in this one."""
    (tmp_path / "a.db-wal").write_bytes(bytes(3 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", _GROWING, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdin
            assert process.stdout
            process.stdout.readline()
            before = sample(process.pid, f"http://127.0.0.1:{port}", [tmp_path / "a.db", tmp_path / "b.db"])
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            after = sample(process.pid, f"http://127.0.0.1:{port}", [tmp_path / "a.db"])
            process.stdin.write("\n")
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
