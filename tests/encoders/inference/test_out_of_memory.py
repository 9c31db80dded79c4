"""A batch that memory does not hold is encoded in halves instead of ending the process."""

import subprocess
import sys

import pytest

from encoders.folder.model_folder import ModelFolder
from trials import ROOT

_IN_LITTLE_MEMORY = """
import resource, sys
import numpy as np
from encoders.inference import session as sessions
from encoders.folder.model_folder import ModelFolder
sessions.CPU_TOKEN_BUDGET = 40 * 256
folder = ModelFolder.open(sys.argv[1])
rows = [np.random.default_rng(at).integers(10, 1000, 256).astype(np.int32) for at in range(40)]
session = sessions.OnnxSession(folder, device="cpu", threads=1)
session.run(rows[:1], 1)
size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (size + 100 * 2**20, -1))
vectors = session.run(rows, 1)
apart = np.concatenate([session.run([row], 1) for row in rows])
cosines = (vectors * apart).sum(1)
print(session._too_large, cosines.min(), cosines.mean())
"""


@pytest.mark.parts
def test_it_goes_on_in_smaller_batches_and_remembers_what_was_too_large(default_folder: ModelFolder) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_LITTLE_MEMORY, default_folder.path],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    too_large, least, mean = done.stdout.split()
    assert 256 < int(too_large) <= 40 * 256
    assert float(least) >= 0.99
    assert float(mean) >= 0.995
