"""The command prepares its process: the way to its own packages, threads of matrix products, garbage collection."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.command import _ON_ALL_CORES
from query.cli import root
from trials import ROOT

_SCRIPT = "from dragoman.command import main\nif __name__ == '__main__':\n    main()\n"
"""What an installer writes as the console script of ``pyproject.toml``."""
_SPAWNS = """
import multiprocessing, sys
from dragoman.command import put_own_packages_first
def origin(name):
    return __import__(name).__file__
if __name__ == "__main__":
    put_own_packages_first()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.map(origin, ["query", "encoders", "helper"]), sep="\\n")
"""
_THREADS = """
import gc
from dragoman.command import main
try:
    main()
finally:
    import numpy, threadpoolctl
    pools = threadpoolctl.threadpool_info()
    print({pool["num_threads"] for pool in pools if pool["internal_api"] == "openblas"}, gc.isenabled())
"""


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """A folder with a query.py, an encoders package, and a module of the user's."""
    folder = tmp_path / "work"
    (folder / "encoders").mkdir(parents=True)
    for name in ("query.py", "encoders/__init__.py"):
        (folder / name).write_text("raise SystemExit('this is the module of the user')\n")
    (folder / "helper.py").write_text("")
    return folder


def python(*program: str | Path, **place: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *program], capture_output=True, text=True, check=False, **place)


def run(folder: Path, *program: str | Path) -> subprocess.CompletedProcess[str]:
    stated = {"PYTHONPATH": f".{os.pathsep}{ROOT}", "DRAGOMAN_HOME": f"{folder}/home", "PYTHONIOENCODING": "latin-1"}
    return python(*program, cwd=folder, env=os.environ | stated)


def test_the_users_modules_are_left_alone_and_output_is_utf_8_or_a_sentence(users_folder: Path, tmp_path: Path) -> None:
    (script := tmp_path / "dragoman").write_text(_SCRIPT)
    for called in ([script], ["-m", "dragoman"]):
        done = run(users_folder, *called, "search", "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: dragoman search")
    for place, said in ((">&-", ""), (">/dev/full", "Error: the output can't be written (No space left on device)")):
        assert subprocess.getoutput(f"{sys.executable} -m dragoman encoders list 2>&1 {place}")[:60] == said  # noqa: S605


def test_spawned_processes_find_the_same_packages_and_the_users_modules(users_folder: Path, tmp_path: Path) -> None:
    (program := tmp_path / "spawns.py").write_text(_SPAWNS)
    done = run(users_folder, program)
    assert done.returncode == 0, done.stderr
    own = (f"{ROOT}/{name}/__init__.py" for name in ("query", "encoders"))
    assert done.stdout.splitlines() == [*own, f"{users_folder}/helper.py"]


@pytest.mark.parametrize(
    ("command", "chosen", "threads"), [("search", None, 1), ("search", "2", 2), ("align", None, 0)]
)
def test_products_of_a_search_are_computed_on_one_core_unless_the_user_says_otherwise(
    command: str, chosen: str | None, threads: int, tmp_path: Path
) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores < 2 or "openblas" not in str(np.show_config("dicts")):
        pytest.skip("on one core, or without OpenBLAS, there is nothing to choose")
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment |= {"OPENBLAS_NUM_THREADS": chosen} if chosen else {}
    (program := tmp_path / "threads.py").write_text(_THREADS)
    done = python(program, command, "--help", env={**environment, "PYTHONPATH": str(ROOT)}, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == f"{{{threads or cores}}} True"
    assert set(_ON_ALL_CORES) <= set(root.lines)
