"""Freed memory goes back to the system, and threads share arenas."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.machine.freed_memory import give_back_memory

_EIGHT_THREADS = """
import ctypes, sys, threading
from encoders.machine.freed_memory import share_arenas

if arenas := int(sys.argv[1]):
    share_arenas(arenas)
together = threading.Barrier(8)

def allocate():
    together.wait()
    allocated = [bytearray(5_000) for _ in range(1_000)]
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


_ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: its glibc keeps memory that was freed")


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


@_ON_LINUX
def test_memory_of_many_freed_objects_goes_back() -> None:
    objects = [bytes(1_000) for _ in range(100_000)]
    last = bytes(1_000)  # glibc gives back the end of the heap by itself
    full = _resident()
    objects.clear()
    give_back_memory()
    assert full - _resident() > 50 << 20
    assert last


@_ON_LINUX
@pytest.mark.parametrize("shared", [0, 2])
def test_threads_share_a_bounded_number_of_arenas(shared: int) -> None:
    command = [sys.executable, "-c", _EIGHT_THREADS, str(shared)]
    statistics = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    arenas = statistics.count("Arena ")
    assert arenas == 2 if shared else arenas > 2
