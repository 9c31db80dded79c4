"""Freed memory goes back to the system."""

import resource
import sys
from pathlib import Path

import pytest

from encoders.memory import give_back_memory


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: there glibc keeps what many small objects took")
def test_memory_of_many_freed_objects_goes_back() -> None:
    objects = [bytes(1_000) for _ in range(100_000)]
    last = bytes(1_000)  # glibc gives back the end of the heap by itself
    full = _resident()
    objects.clear()
    give_back_memory()
    assert full - _resident() > 50 << 20
    assert last
