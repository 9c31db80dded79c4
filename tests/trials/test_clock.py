"""A clock of a trial is set while a process reads it, and its sleep stays as it is."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from trials.clock import Clock

_PROGRAM = "import time\nwhile input() != 'end': time.sleep(0.01); print(time.time(), time.monotonic(), flush=True)"


@pytest.mark.skipif(sys.platform != "linux", reason="it preloads a library")
def test_a_process_sees_its_clock_go_ahead_and_back_and_its_monotonic_clock_go_on(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        skip_or_fail("no compiler for a clock that can be set: apt-get install gcc")
    clock = Clock(tmp_path, ahead=3600)
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for ahead in (3600, -86_400, 0):
            clock.set(ahead)
            process.stdin.write("\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            assert abs(wall - time.time() - ahead) < 600
            assert abs(monotonic - time.monotonic()) < 600
        process.communicate("end\n")
    assert clock.ahead == 0
